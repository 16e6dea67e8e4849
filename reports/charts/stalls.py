"""How stalls are spread: the share of all faults of all repeats whose stall was no longer than so many milliseconds."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.analysis.model import Arm, Summary
from reports.charts import svg
from reports.charts.curves import BOTTOM, HEIGHT, TOP, Axes, Curve, across, keys, marks
from reports.charts.frame import Figure, Key, shared
from reports.words import names
from reports.words.units import limit, ms

FEWEST = 2
"""Stalls of an arm; of one there is nothing to spread."""
FLOOR_MS = 0.1
MOST_STEPS = 300


def figure(summary: Summary, limit_ms: float | None) -> Figure | None:
    """None unless an arm met several faults. `limit_ms` is the stall that the experiment allows."""
    stalls = {arm.name: _stalls(arm) for arm in summary.arms}
    stalls = {arm: found for arm, found in stalls.items() if found}
    if not any(len(found) >= FEWEST for found in stalls.values()):
        return None
    values = [value for found in stalls.values() for value in found]
    low, high = max(FLOOR_MS, min(values) / 1.5), max(*values, FLOOR_MS, limit_ms or 0.0) * 1.5
    scale, up = across(low, high), svg.Scale(0.0, 1.0, BOTTOM, TOP)
    curves = [
        Curve(_name(arm, found), steps(found, low, high), base=arm in names.BASELINES) for arm, found in stalls.items()
    ]
    shares = [(share, f"{share:.0%}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    axes = Axes(scale, up, [(tick, limit(tick)) for tick in svg.log_ticks(low, high)], shares, "stall")
    parts, legend = marks(curves, axes), keys(curves)
    if limit_ms:
        parts.append(svg.line(scale(limit_ms), TOP, scale(limit_ms), BOTTOM, "bound"))
        legend.append(Key("bound", f"the experiment allows {limit(limit_ms)}"))
    told = "; ".join(curve.name for curve in curves)
    caption = (
        "Every stall of every repeat: the share of them that was no longer than what the axis says. A curve further to "
        "the left is better, a long tail at the top is a stall that came seldom. Logarithmic."
    )
    title = "How the stalls are spread"
    return Figure("stalls", title, caption, [shared("stalls", HEIGHT, parts, title=title, text=told)], legend)


def steps(stalls: Sequence[float], low: float, high: float) -> list[tuple[float, float]]:
    """The corners of the empirical distribution from `low` to `high`; of very many stalls those at equal shares."""
    ordered = sorted(stalls)
    count = len(ordered)
    few = count <= MOST_STEPS
    places = range(count) if few else [round(i * (count - 1) / MOST_STEPS) for i in range(MOST_STEPS + 1)]
    corners, share = [(low, 0.0)], 0.0
    for place in places:
        value = max(low, ordered[place])
        corners += [(value, share), (value, (place + 1) / count)]
        share = (place + 1) / count
    return [*corners, (high, 1.0)]


def _stalls(arm: Arm) -> list[float]:
    found = [fault.stall_ms for run in arm.runs for fault in run.faults]
    return [float(value) for value in found if value is not None]


def _name(arm: str, stalls: Sequence[float]) -> str:
    ordered = sorted(stalls)
    middle, worst = ordered[(len(ordered) - 1) // 2], ordered[-1]
    count = f"{len(ordered)} stall{'' if len(ordered) == 1 else 's'}"
    return f"{names.arm(arm)}: {count}, median {ms(middle)}, longest {ms(worst)}"
