"""Bus bandwidth over message size: one curve for each arm and way of measuring, and what is possible at best."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from chaos.analysis.model import Summary
from reports.charts import svg
from reports.charts.curves import BOTTOM, HEIGHT, TOP, Axes, Curve, across, keys, marks
from reports.charts.frame import Figure, shared
from reports.store.entries import figures
from reports.store.entry import Figure as Value
from reports.words import names
from reports.words.units import memory, size

WAYS = {"busbw": "", "busbw_in_place": ", in place", "busbw_degraded": ", degraded"}
"""Names of metrics, and what they are called next to the arm."""
FEWEST_SIZES = 2
MOST_TICKS = 6


def figure(summary: Summary) -> Figure | None:
    """None unless the run measured several sizes."""
    values = [v for v in figures(summary) if v.name in WAYS and v.size_bytes and v.value > 0]
    sizes = sorted({v.size_bytes for v in values if v.size_bytes})
    if len(sizes) < FEWEST_SIZES:
        return None
    curves = [*_curves(values)]
    top = max(y for curve in curves for _, y in curve.points) * 1.08
    up = svg.Scale(0, top, BOTTOM, TOP)
    ticks = [(tick, f"{tick:g}") for tick in svg.nice_ticks(0, top, 5)]
    axes = Axes(across(sizes[0], sizes[-1]), up, _size_ticks(sizes), ticks, "message size")
    told = "; ".join(_describe(curve) for curve in curves)
    panel = shared("sizes", HEIGHT, marks(curves, axes), title="Bus bandwidth over message size", text=told)
    caption = (
        "GB/s as nccl-tests counts them, so that different operations and numbers of ranks can be compared; the median "
        "of the repeats at each size. The message size grows by factors."
    )
    return Figure("sizes", "Bus bandwidth over message size", caption, [panel], keys(curves))


def _curves(values: Sequence[Value]) -> Iterable[Curve]:
    for arm in dict.fromkeys(v.arm for v in values):
        for way, added in WAYS.items():
            mine = [v for v in values if (v.arm, v.name) == (arm, way)]
            if not mine:
                continue
            points = _medians((v.size_bytes or 0, v.value) for v in mine)
            name = f"{names.arm(arm)}{added}"
            told = [f"{name}, {_bytes(at)}: {value:.3g} GB/s" for at, value in points]
            yield Curve(name, points, told, base=arm in names.BASELINES)
            bound = _medians((v.size_bytes or 0, v.bound) for v in mine if v.bound)
            if bound:
                yield Curve(f"bound of {name}", bound, bound=True)


def _medians(pairs: Iterable[tuple[int, float]]) -> list[tuple[float, float]]:
    found: dict[int, list[float]] = {}
    for at, value in pairs:
        found.setdefault(at, []).append(value)
    return [(at, median(found[at])) for at in sorted(found)]


def _describe(curve: Curve) -> str:
    best_at, best = max(curve.points, key=lambda point: point[1])
    (first, low), (last, high) = curve.points[0], curve.points[-1]
    ends = f"{low:.3g} GB/s at {_bytes(first)}, {high:.3g} GB/s at {_bytes(last)}"
    return f"{curve.name}: {ends}, at most {best:.3g} GB/s at {_bytes(best_at)}"


def _size_ticks(sizes: Sequence[int]) -> list[tuple[float, str]]:
    """Powers of two, a few."""
    low, high = math.ceil(math.log2(sizes[0])), math.floor(math.log2(sizes[-1]))
    step = max(1, -(-(high - low) // (MOST_TICKS - 1)))
    return [(float(1 << power), _bytes(1 << power)) for power in range(low, high + 1, step)]


def _bytes(value: float) -> str:
    """As message sizes are given, in powers of two where they are some."""
    whole = int(value)
    if whole % (1 << 20) == 0:
        return memory(whole).replace(".0 ", " ")
    return f"{whole >> 10} KiB" if whole % (1 << 10) == 0 else size(whole)
