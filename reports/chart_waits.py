"""The longest wait for data at every moment: the stall as the application felt it."""

from __future__ import annotations

from collections.abc import Sequence

from reports import names, series, svg
from reports.charts import WIDTH, Figure, Key, Panel, empty, grid, ident, shade, time_axis, time_scale
from reports.trace import Json, Trace
from reports.units import limit, ms

TOP = 20.0
BOTTOM = 170.0
FLOOR_MS = 1.0


def figure(traces: Sequence[Trace], faults: dict[str, list[Json]], limit_ms: float | None) -> Figure:
    """`limit_ms` is the stall that the experiment allows; it is no line here, because a gap is not yet a stall."""
    axis = series.common_axis(traces)
    waits = {
        id(t): series.longest_wait_ms((d for per in t.deliveries.values() for d in per), t.origin_ns(), axis)
        for t in traces
    }
    high = max((v for per in waits.values() for v in per), default=10.0)
    high = max(high, 10.0) * 3
    panels = [_panel(t, waits[id(t)], axis, high, faults.get(t.arm, [])) for t in traces]
    keys = [Key("area-ours", "longest gap between two chunks, over all connections"), Key("window", "fault on")]
    allowed = f" The experiment allows {limit(limit_ms)}." if limit_ms else ""
    caption = (
        "At every moment, how long the connection that waits longest goes without a new chunk of data. The stall is the longest gap around the "
        f"fault, less that connection’s own usual gap.{allowed} Logarithmic, the same scale for all arms."
    )
    return Figure("waits", "How long data stood still", caption, panels, keys)


def _panel(trace: Trace, waits: Sequence[float], axis: series.Axis, high: float, faults: Sequence[Json]) -> Panel:
    name = ident("waits", trace)
    if not any(waits):
        return empty(trace.arm, name, "no deliveries in the journal")
    scale = time_scale(axis)
    up = svg.Scale(FLOOR_MS, high, BOTTOM, TOP, log=True)
    across = svg.Scale(0, axis.bins, scale.start, scale.end)
    ticks = svg.log_ticks(FLOOR_MS, high)
    cls = names.arm_class(trace.arm)
    steps = [(across(i + side), up(v)) for i, v in enumerate(waits) for side in (0, 1)]
    area = [(across(0), up(FLOOR_MS)), *_thin(steps), (across(axis.bins), up(FLOOR_MS))]
    parts = [
        shade(trace, scale, TOP, BOTTOM),
        grid(up, ticks, [limit(t) for t in ticks]),
        svg.path(area, f"area-{cls}", close=True),
    ]
    parts += [_peak(waits, faults, across, up), time_axis(scale, BOTTOM)]
    return Panel(
        trace.arm,
        svg.document(
            WIDTH,
            BOTTOM + 24,
            f"Longest wait for data, {names.arm(trace.arm)}",
            _describe(waits, faults),
            "".join(parts),
            name,
        ),
    )


def _thin(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Drop points in the middle of a level stretch."""
    kept = [
        p for i, p in enumerate(points) if i in (0, len(points) - 1) or not points[i - 1][1] == p[1] == points[i + 1][1]
    ]
    return list(kept)


def _peak(waits: Sequence[float], faults: Sequence[Json], across: svg.Scale, up: svg.Scale) -> str:
    worst = max(range(len(waits)), key=lambda i: waits[i])
    stalls = [float(f["stall_ms"]) for f in faults if f.get("stall_ms") is not None]
    label = f"stall {ms(max(stalls))}" if stalls else f"gap {ms(waits[worst])}"
    right = across(worst) > WIDTH - 80
    return svg.text(
        across(worst) + (-4 if right else 4), up(waits[worst]) - 5, label, "label", "end" if right else "start"
    )


def _describe(waits: Sequence[float], faults: Sequence[Json]) -> str:
    stalls = [f["stall_ms"] for f in faults if f.get("stall_ms") is not None]
    stall = f" The stall, less the usual gap, was {ms(max(stalls))}." if stalls else ""
    return f"The longest gap between two chunks of one connection was {ms(max(waits))}.{stall}"
