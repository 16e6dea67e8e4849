"""How long every iteration took, one dot each, with the bounds that the verdict used."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.analysis.model import FaultFigures
from reports.charts import svg
from reports.charts.frame import LEFT, RIGHT, WIDTH, Figure, Key, Panel, empty, grid, panel
from reports.reading.trace import Trace
from reports.words import names
from reports.words.units import limit, ms

TOP = 20.0
BOTTOM = 190.0
MAX_DOTS = 400
FLOOR_MS = 0.01
"""What is less is drawn here: a program's steps may be read at once, and have no time between them."""


def figure(traces: Sequence[Trace], faults: dict[str, list[FaultFigures]]) -> Figure:
    """`faults` holds the summary's faults of each arm, for the bounds."""
    times = [t.iteration_ms() for t in traces]
    values = [v for per in times for v in per.values()]
    low, high = (max(FLOOR_MS, value) for value in (min(values, default=1.0), max(values, default=10.0)))
    up = svg.Scale(low * 0.8, high * 1.7, BOTTOM, TOP, log=True)
    last = max((index for per in times for index in per), default=1)
    across = svg.Scale(-0.7, last + 0.7, LEFT, WIDTH - RIGHT)
    panels = [_panel(t, per, faults.get(t.arm, []), across, up) for t, per in zip(traces, times, strict=True)]
    keys = [Key("dot-ours", "iteration"), Key("dot-hit", "while the fault was on"), Key("bound", "bound")]
    caption = (
        "The slowest rank’s time. The scale is logarithmic, the same for all arms; a bound is what this mode can reach "
        "at best with the NICs that are left."
    )
    return Figure("iterations", "Time of each iteration", caption, panels, keys)


def _panel(
    trace: Trace, times: dict[int, float], faults: Sequence[FaultFigures], across: svg.Scale, up: svg.Scale
) -> Panel:
    if not times:
        return empty(trace, "iterations", "no iteration was completed")
    hit = hit_iterations(trace)
    ticks = svg.log_ticks(up.low, up.high)
    parts = [
        grid(up, ticks, [limit(t) for t in ticks]),
        _shade(hit, across),
        _bounds(faults, hit, across, up),
        *(
            _dot(across(i), up(times[i]), _class(trace, i in hit), f"iteration {i}: {ms(times[i])}")
            for i in thin(times)
        ),
        _index_axis(across, max(times)),
        _label_worst(times, across, up),
    ]
    return panel(trace, "iterations", BOTTOM + 34, parts, title="Iteration times", text=describe(times, hit))


def thin(times: dict[int, float], most: int = MAX_DOTS) -> list[int]:
    """The iterations to draw: all, or of a long run the slowest of every few, so that none that matters is hidden."""
    indices = sorted(times)
    step = -(-len(indices) // most)
    return [max(indices[i : i + step], key=lambda index: times[index]) for i in range(0, len(indices), step)]


def _class(trace: Trace, hit: bool) -> str:
    return "dot-hit" if hit else f"dot-{names.arm_class(trace.arm)}"


def hit_iterations(trace: Trace) -> set[int]:
    """Iterations during which a fault was on, in whole or in part."""
    hit = set()
    for index, spans in trace.iterations.items():
        start, end = min(s for s, _ in spans), max(e for _, e in spans)
        if any(w.start_ns < end and (w.end_ns is None or w.end_ns > start) for w in trace.windows()):
            hit.add(index)
    return hit


def _shade(hit: set[int], across: svg.Scale) -> str:
    if not hit:
        return ""
    left, right = across(min(hit) - 0.5), across(max(hit) + 0.5)
    window = svg.rect(left, TOP, right - left, BOTTOM - TOP, cls="window", title="the fault was on")
    return window + svg.text(left + 3, TOP - 4, "fault", "tick fault-text")


def _bounds(faults: Sequence[FaultFigures], hit: set[int], across: svg.Scale, up: svg.Scale) -> str:
    parts = []
    for fault in faults:
        at, bound, degraded = fault.at_iteration, fault.iteration_bound_ms, fault.degraded_bound_ms
        if at is not None and bound:
            parts.append(svg.line(across(at - 0.5), up(bound), across(at + 0.5), up(bound), "bound"))
        whole = {i for i in hit if at is not None and i > at}
        if degraded and whole:
            parts.append(
                svg.line(across(min(whole) - 0.5), up(degraded), across(max(whole) + 0.5), up(degraded), "bound")
            )
    return "".join(parts)


def _dot(x: float, y: float, cls: str, title: str) -> str:
    return svg.tag("circle", svg.tag("title", title), cx=x, cy=y, r=3, class_=cls)


def _index_axis(across: svg.Scale, last: int) -> str:
    ticks = [t for t in svg.nice_ticks(0, last, 8) if t == int(t)]
    marks = "".join(svg.text(across(t), BOTTOM + 16, f"{t:g}", anchor="middle") for t in ticks)
    label = svg.text(WIDTH - RIGHT, BOTTOM + 30, "iteration", anchor="end")
    return svg.line(LEFT, BOTTOM, WIDTH - RIGHT, BOTTOM, "axis") + marks + label


def _label_worst(times: dict[int, float], across: svg.Scale, up: svg.Scale) -> str:
    worst = max(times, key=lambda i: times[i])
    anchor = "end" if across(worst) > WIDTH - 60 else "start" if across(worst) < LEFT + 30 else "middle"
    return svg.text(across(worst), up(times[worst]) - 8, ms(times[worst]), "label", anchor)


def describe(times: dict[int, float], hit: set[int]) -> str:
    """The figure in one sentence, for those who cannot see it."""
    healthy = sorted(v for i, v in times.items() if i not in hit)
    worst = max(times, key=lambda i: times[i])
    median = f"healthy median {ms(healthy[len(healthy) // 2])}, " if healthy else ""
    return f"{len(times)} iterations: {median}longest {ms(times[worst])} at iteration {worst}."
