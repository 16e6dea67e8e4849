"""What all charts share: the figure with one panel per arm, the frame of a panel, its axes and the shaded fault."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from reports.charts import svg
from reports.reading.series import Axis
from reports.reading.trace import Trace, Window
from reports.words import names

WIDTH = 400.0
LEFT = 46.0
RIGHT = 10.0


@dataclass(frozen=True)
class Panel:
    """One arm's picture; of several arms together when `arm` is empty. `heading` is said instead of the arm's name."""

    arm: str
    svg: str
    heading: str = ""


@dataclass(frozen=True)
class Key:
    """An entry of a figure's legend: the class that colours it and what it stands for."""

    cls: str
    label: str


@dataclass(frozen=True)
class Figure:
    """A figure of the report: a heading that says what to see, panels with the same axes, and a legend."""

    id: str
    title: str
    caption: str
    panels: list[Panel]
    keys: list[Key] = field(default_factory=list)
    more: list[Panel] = field(default_factory=list)
    more_title: str = ""


def ident(prefix: str, trace: Trace) -> str:
    """An id for an element of a panel: unique on the page, and safe whatever an arm is called."""
    return f"{prefix}-{re.sub('[^a-z0-9]+', '-', trace.arm.lower())}-{trace.run}"


def time_scale(axis: Axis) -> svg.Scale:
    """Seconds to horizontal position."""
    return svg.Scale(0.0, axis.span_s, LEFT, WIDTH - RIGHT)


def time_axis(scale: svg.Scale, y: float) -> str:
    """Ticks and labels of the time axis, with the unit at the last tick."""
    ticks = svg.nice_ticks(scale.low, scale.high, 6)
    marks = [svg.line(scale(t), y, scale(t), y + 4, "axis") for t in ticks]
    labels = [svg.text(scale(t), y + 16, f"{t:g}{' s' if t == ticks[-1] else ''}", anchor="middle") for t in ticks]
    return svg.line(scale.start, y, scale.end, y, "axis") + "".join(marks + labels)


def shade(trace: Trace, scale: svg.Scale, top: float, bottom: float) -> str:
    """The fault windows of a run, shaded, the first one labelled."""
    parts = []
    for number, window in enumerate(trace.windows()):
        start, end = (scale(moment) for moment in window_s(trace, window, scale.high))
        title = f"fault: {window.kind} on {window.target}"
        parts.append(svg.rect(start, top, max(1.0, end - start), bottom - top, cls="window", title=title))
        if number == 0:
            parts.append(svg.text(start + 3, top - 4, "fault", cls="tick fault-text"))
    return "".join(parts)


def window_s(trace: Trace, window: Window, latest_s: float) -> tuple[float, float]:
    """Start and end of a fault in seconds of the page's axis; one that was never reverted lasts to the axis' end."""
    origin = trace.origin_ns()
    end = latest_s if window.end_ns is None else (window.end_ns - origin) / 1e9
    return (window.start_ns - origin) / 1e9, min(end, latest_s)


def grid(scale: svg.Scale, ticks: Sequence[float], labels: Sequence[str]) -> str:
    """Horizontal grid lines with their labels at the left."""
    parts = []
    for tick, label in zip(ticks, labels, strict=True):
        y = scale(tick)
        parts.append(svg.line(LEFT, y, WIDTH - RIGHT, y, "grid"))
        parts.append(svg.text(LEFT - 5, y + 4, label, anchor="end"))
    return "".join(parts)


def panel(trace: Trace, name: str, height: float, parts: Sequence[str], *, title: str, text: str) -> Panel:
    """A panel from its marks; `text` says what they show to those who cannot see them."""
    whole = f"{title}, {names.arm(trace.arm)}"
    return Panel(
        trace.arm, svg.document(WIDTH, height, "".join(parts), title=whole, text=text, ident=ident(name, trace))
    )


def shared(name: str, height: float, parts: Sequence[str], *, title: str, text: str, heading: str = "") -> Panel:
    """A panel of all arms together, or of none."""
    return Panel("", svg.document(WIDTH, height, "".join(parts), title=title, text=text, ident=name), heading)


def empty(trace: Trace, name: str, why: str) -> Panel:
    """A panel that says why there is nothing to draw."""
    return panel(trace, name, 72, [svg.text(WIDTH / 2, 40, why, cls="label", anchor="middle")], title=why, text=why)
