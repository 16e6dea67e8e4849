"""The longest wait for data at every moment: the stall as the application felt it."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.analysis.model import FaultFigures
from reports.charts import svg
from reports.charts.frame import (
    WIDTH,
    Figure,
    Key,
    Panel,
    empty,
    grid,
    panel,
    shade,
    time_axis,
    time_scale,
)
from reports.reading import series
from reports.reading.trace import Trace
from reports.words import names
from reports.words.units import limit, ms

TOP = 20.0
BOTTOM = 170.0
FLOOR_MS = 1.0


def figure(traces: Sequence[Trace], faults: dict[str, list[FaultFigures]], limit_ms: float | None) -> Figure:
    """`limit_ms` is the stall that the experiment allows; it is no line here, because a gap is not yet a stall."""
    axis = series.common_axis(traces)
    waits = [series.longest_wait_ms(t.all_deliveries(), t.origin_ns(), axis) for t in traces]
    up = svg.Scale(FLOOR_MS, max(10.0, *(max(per) for per in waits)) * 3, BOTTOM, TOP, log=True)
    panels = [_panel(t, per, axis, up, faults.get(t.arm, [])) for t, per in zip(traces, waits, strict=True)]
    keys = [Key("area-ours", "longest gap between two chunks, over all connections"), Key("window", "fault on")]
    allowed = f" The experiment allows {limit(limit_ms)}." if limit_ms else ""
    caption = (
        "At every moment, how long the connection that waits longest goes without a new chunk of data. The stall is "
        f"the longest gap around the fault, less that connection’s own usual gap.{allowed} Logarithmic, the same scale "
        "for all arms."
    )
    return Figure("waits", "How long data stood still", caption, panels, keys)


def _panel(
    trace: Trace, waits: Sequence[float], axis: series.Axis, up: svg.Scale, faults: Sequence[FaultFigures]
) -> Panel:
    if not any(waits):
        return empty(trace, "waits", "no deliveries in the journal")
    scale = time_scale(axis)
    across = svg.Scale(0, axis.bins, scale.start, scale.end)
    ticks = svg.log_ticks(FLOOR_MS, up.high)
    steps = [(across(i + side), up(v)) for i, v in enumerate(waits) for side in (0, 1)]
    area = [(across(0), up(FLOOR_MS)), *_thin(steps), (across(axis.bins), up(FLOOR_MS))]
    parts = [
        shade(trace, scale, TOP, BOTTOM),
        grid(up, ticks, [limit(t) for t in ticks]),
        svg.path(area, f"area-{names.arm_class(trace.arm)}", close=True),
        _peak(waits, faults, across, up),
        time_axis(scale, BOTTOM),
    ]
    return panel(trace, "waits", BOTTOM + 24, parts, title="Longest wait for data", text=_describe(waits, faults))


def _thin(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Drop points in the middle of a level stretch."""
    last = len(points) - 1
    return [p for i, p in enumerate(points) if i in (0, last) or not points[i - 1][1] == p[1] == points[i + 1][1]]


def _peak(waits: Sequence[float], faults: Sequence[FaultFigures], across: svg.Scale, up: svg.Scale) -> str:
    worst = max(range(len(waits)), key=lambda i: waits[i])
    stalls = [f.stall_ms for f in faults if f.stall_ms is not None]
    label = f"stall {ms(max(stalls))}" if stalls else f"gap {ms(waits[worst])}"
    shift, anchor = (-4, "end") if across(worst) > WIDTH - 80 else (4, "start")
    return svg.text(across(worst) + shift, up(waits[worst]) - 5, label, "label", anchor)


def _describe(waits: Sequence[float], faults: Sequence[FaultFigures]) -> str:
    stalls = [f.stall_ms for f in faults if f.stall_ms is not None]
    stall = f" The stall, less the usual gap, was {ms(max(stalls))}." if stalls else ""
    return f"The longest gap between two chunks of one connection was {ms(max(waits))}.{stall}"
