"""Charts of a simulation: lines over an axis with bands, dots where there is no axis, and shapes of distributions.

Every arm has its own colour, dash and mark, and its name at the end of its line: nothing is told by colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports.charts import svg
from reports.simulation import words

WIDTH, LEFT, RIGHT = 460.0, 58.0, 96.0
TOP, BOTTOM = 16.0, 236.0
ROW, VALUES = 26.0, 104.0
NOUGHT = 1e-6
"""Of the largest value: what is less is nought."""
APART = 12.0
"""Between two names at the right."""
STYLES = {
    name: number
    for number, name in enumerate(
        ("stock", "upstream", "exclusion", "kv_replication", "migrate", "balance", "allreduce", "optcc", "published")
    )
}


@dataclass(frozen=True)
class Mark:
    """One value: where, how much, and between what nine of ten traces lie."""

    x: float
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """One arm's marks, in the order of x."""

    arm: str
    marks: Sequence[Mark]


@dataclass(frozen=True)
class Axis:
    """A name with a unit, and how values are shown."""

    title: str
    unit: str = ""
    log: bool = False


def lines(series: Sequence[Series], across: Axis, up: Axis, *, ident: str, title: str) -> str:
    """Values over a numeric axis."""
    xs = [mark.x for each in series for mark in each.marks]
    x = _scale(xs, LEFT, WIDTH - RIGHT, log=_spread(xs) >= 16)
    y = _up(series)
    parts = [_frame(x, y, sorted(set(xs)), across, up)]
    if y.log and any(mark.value < y.low for each in series for mark in each.marks):
        parts.append(svg.text(LEFT - 5, BOTTOM + 4, "0", anchor="end"))
    parts += [_band(each, x, y) for each in series] + [_line(each, x, y) for each in series]
    parts += _names(series, x, y)
    return _document(BOTTOM + 40, parts, title, _describe(series, across, up), ident)


def rows(series: Sequence[Series], labels: Sequence[str], up: Axis, *, ident: str, title: str) -> str:
    """Where there is no numeric axis: a row for each arm (and each of the labels), a dot, and a bar around it."""
    flat = [(each, mark) for each in series for mark in each.marks]
    values = [bound for _, mark in flat for bound in (mark.value, mark.low, mark.high) if bound is not None]
    left, right = 148.0, WIDTH - VALUES
    log = _spread(values) >= 100
    scale = _scale(values, left, right, log=log, zero=_from_zero(values))
    bottom = TOP + ROW * len(flat)
    ticks = _ticks(scale, 4)
    parts = [svg.line(scale(tick), TOP - 4, scale(tick), bottom, "grid") for tick in ticks]
    parts += [svg.text(scale(tick), bottom + 16, words.tick(tick, up.unit), anchor="middle") for tick in ticks]
    parts.append(svg.text(right, bottom + 32, _titled(up), anchor="end"))
    for number, (each, mark) in enumerate(flat):
        label = labels[int(mark.x)] if len(labels) > 1 else ""
        name = f"{words.short(each.arm)}{f', {label}' if label else ''}"
        parts.append(_row(each.arm, mark, scale, TOP + ROW * number + ROW / 2, (name, up.unit)))
    return _document(bottom + 40, parts, title, _describe(series, Axis(""), up, labels), ident)


def shapes(series: Sequence[Series], across: Axis, *, ident: str, title: str) -> str:
    """Cumulative distributions: how many lie at or below."""
    xs = [mark.x for each in series for mark in each.marks if mark.x > 0]
    x = _scale(xs, LEFT, WIDTH - RIGHT, log=_spread(xs) >= 16)
    y = svg.Scale(0.0, 1.0, BOTTOM, TOP)
    parts = [_frame(x, y, _ticks(x, 4), across, Axis("share of requests", "share"))]
    parts += [_line(each, x, y, dots=False) for each in series]
    late = sorted(series, key=lambda each: each.marks[-1].x)
    places = [(WIDTH - RIGHT + 8, TOP + 30 + APART * number) for number in range(len(late))]
    for (at, down), each in zip(places, late, strict=True):
        parts.append(svg.text(at, down, words.short(each.arm), cls=f"name s{STYLES.get(each.arm, 0)}"))
    return _document(BOTTOM + 40, parts, title, _describe_shapes(series, across), ident)


def _scale(values: Sequence[float], start: float, end: float, *, log: bool, zero: bool = False) -> svg.Scale:
    low, high = min(values, default=0.0), max(values, default=1.0)
    log = log and low > 0
    if zero and not log:
        low = min(low, 0.0)
    if high <= low:
        low, high = (low * 0.9, high * 1.1) if low else (0.0, 1.0)
    return svg.Scale(low, high, start, end, log)


def _up(series: Sequence[Series]) -> svg.Scale:
    """From nought where that does not hide the differences; by the logarithm where values are far apart.

    What is nought, or what rounding leaves of it, then lies on the axis (`_frame` says so).
    """
    bounds = [v for each in series for mark in each.marks for v in (mark.value, mark.low, mark.high) if v is not None]
    above = [value for value in bounds if value > NOUGHT * max(bounds)]
    if _spread(above) >= 100 and min(bounds) >= -NOUGHT * max(bounds):
        nought = len(above) < len(bounds)
        return svg.Scale(min(above) / (2 if nought else 1.3), max(above) * 1.3, BOTTOM, TOP, log=True)
    low, high = min(bounds, default=0.0), max(bounds, default=1.0)
    room = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    start = 0.0 if _from_zero(bounds) else low - room
    return svg.Scale(min(start, low), high + room, BOTTOM, TOP)


def _from_zero(values: Sequence[float]) -> bool:
    return min(values, default=0.0) >= 0 and max(values, default=1.0) > 2 * min(values, default=0.0)


def _spread(values: Sequence[float]) -> float:
    low, high = min(values, default=1.0), max(values, default=1.0)
    return high / low if low > 0 else 1.0


def _ticks(scale: svg.Scale, count: int) -> list[float]:
    found = svg.log_ticks(scale.low, scale.high) if scale.log else svg.nice_ticks(scale.low, scale.high, count)
    return found or [scale.low, scale.high]


def _frame(x: svg.Scale, y: svg.Scale, xs: Sequence[float], across: Axis, up: Axis) -> str:
    parts = []
    for tick in _ticks(y, 5):
        parts.append(svg.line(LEFT, y(tick), WIDTH - RIGHT, y(tick), "grid"))
        parts.append(svg.text(LEFT - 5, y(tick) + 4, words.tick(tick, up.unit), anchor="end"))
    parts.append(svg.line(LEFT, BOTTOM, WIDTH - RIGHT, BOTTOM, "axis"))
    last = -math.inf
    for value in xs:
        parts.append(svg.line(x(value), BOTTOM, x(value), BOTTOM + 4, "axis"))
        if x(value) - last >= 34:
            shown = words.tick(value, across.unit) if across.unit else words.plain(value)
            parts.append(svg.text(x(value), BOTTOM + 17, shown, anchor="middle"))
            last = x(value)
    parts.append(svg.text(WIDTH - RIGHT, BOTTOM + 33, _titled(across), anchor="end"))
    parts.append(svg.text(2, TOP - 5, _titled(up)))
    return "".join(parts)


def _titled(axis: Axis) -> str:
    return axis.title if not axis.unit or axis.unit in words.SELF_TOLD else f"{axis.title} [{axis.unit}]"


def _band(series: Series, x: svg.Scale, y: svg.Scale) -> str:
    known = [mark for mark in series.marks if mark.low is not None and mark.high is not None]
    if len(known) < 2 or all(mark.low == mark.high for mark in known):
        return ""
    upper = [(x(mark.x), y(mark.high or 0.0)) for mark in known]
    lower = [(x(mark.x), y(mark.low or 0.0)) for mark in reversed(known)]
    return svg.path([*upper, *lower], f"band s{STYLES.get(series.arm, 0)}", close=True)


def _line(series: Series, x: svg.Scale, y: svg.Scale, *, dots: bool = True) -> str:
    style = f"s{STYLES.get(series.arm, 0)}"
    points = [(x(mark.x), y(mark.value)) for mark in series.marks]
    parts = [svg.path(points, f"line {style}")]
    for (px, py), mark in zip(points, series.marks, strict=True) if dots else ():
        parts.append(_dot(px, py, series.arm, f"{words.arm(series.arm)}, at {words.plain(mark.x)}: {mark.value:.4g}"))
    return "".join(parts)


def _dot(x: float, y: float, arm: str, title: str) -> str:
    style = STYLES.get(arm, 0)
    shape = svg.tag("title", title)
    if style % 3 == 0:
        return svg.tag("circle", shape, cx=x, cy=y, r=3.4, class_=f"mark s{style}")
    if style % 3 == 1:
        return svg.tag("rect", shape, x=x - 3.0, y=y - 3.0, width=6.0, height=6.0, class_=f"mark s{style}")
    corners = f"M{svg.number(x)} {svg.number(y - 4)}l4 7h-8z"
    return svg.tag("path", shape, d=corners, class_=f"mark s{style}")


def _names(series: Sequence[Series], x: svg.Scale, y: svg.Scale) -> list[str]:
    """At the ends of the lines, pushed apart where they would lie over each other."""
    last = max(mark.x for each in series for mark in each.marks)
    whole = [each for each in series if each.marks[-1].x == last]
    ends = sorted((y(each.marks[-1].value), x(last), each.arm) for each in whole)
    places: list[float] = []
    for at, _, _ in ends:
        places.append(max(at, places[-1] + APART) if places else at)
    over = places[-1] - BOTTOM if places else 0.0
    places = _lifted(places, over) if over > 0 else places
    named = [
        svg.text(end + 8, place + 4, words.short(arm), cls=f"name s{STYLES.get(arm, 0)}")
        for (_, end, arm), place in zip(ends, places, strict=True)
    ]
    return named + [_stopped(each, x, y) for each in series if each not in whole]


def _stopped(series: Series, x: svg.Scale, y: svg.Scale) -> str:
    """The name of an arm that has no value further on: there it cannot go on."""
    mark, style = series.marks[-1], f"name s{STYLES.get(series.arm, 0)}"
    return svg.text(x(mark.x) + 6, y(mark.value) - 8, f"{words.short(series.arm)} stops", cls=style)


def _lifted(places: Sequence[float], over: float) -> list[float]:
    """Pushed up again by what hangs out below."""
    found = list(places)
    found[-1] -= over
    for index in range(len(found) - 2, -1, -1):
        found[index] = min(found[index], found[index + 1] - APART)
    return found


def _row(arm: str, mark: Mark, scale: svg.Scale, y: float, told: tuple[str, str]) -> str:
    """`told`: the row's name, and the unit of its value."""
    style, (name, unit) = f"s{STYLES.get(arm, 0)}", told
    shown = words.value(mark.value, unit)
    parts = [svg.text(140, y + 4, name, cls=f"name {style}", anchor="end")]
    if mark.low is not None and mark.high is not None:
        parts.append(svg.line(scale(mark.low), y, scale(mark.high), y, f"span {style}"))
    parts.append(_dot(scale(mark.value), y, arm, f"{words.arm(arm)}: {shown}"))
    parts.append(svg.text(WIDTH - VALUES + 10, y + 4, shown, cls="label"))
    return "".join(parts)


def _document(height: float, parts: Sequence[str], title: str, text: str, ident: str) -> str:
    return svg.document(WIDTH, height, "".join(parts), title=title, text=text, ident=ident)


def _describe(series: Sequence[Series], across: Axis, up: Axis, labels: Sequence[str] = ()) -> str:
    """The chart in words, for those who cannot see it."""
    told = []
    for each in series:
        if not each.marks:
            continue
        first, last = each.marks[0], each.marks[-1]
        ends = [words.value(mark.value, up.unit) for mark in (first, last)]
        if len(each.marks) == 1:
            told.append(f"{words.arm(each.arm)}: {ends[0]}")
        elif labels:
            shown = [f"{labels[int(mark.x)]} {words.value(mark.value, up.unit)}" for mark in each.marks]
            told.append(f"{words.arm(each.arm)}: {', '.join(shown)}")
        else:
            places = [words.plain(mark.x) for mark in (first, last)]
            told.append(f"{words.arm(each.arm)}: {ends[0]} at {places[0]} {across.title}, {ends[1]} at {places[1]}")
    return f"{up.title}. {'; '.join(told)}."


def _describe_shapes(series: Sequence[Series], across: Axis) -> str:
    told = []
    for each in series:
        half = next((mark.x for mark in each.marks if mark.value >= 0.5), None)
        late = next((mark.x for mark in each.marks if mark.value >= 0.99), None)
        values = [words.value(number, across.unit) for number in (half, late)]
        told.append(f"{words.arm(each.arm)}: half within {values[0]}, 99 % within {values[1]}")
    return f"Distribution of {across.title}. {'; '.join(told)}."


def numeric(values: Sequence[Any]) -> bool:
    """Whether an axis can be drawn as one."""
    real = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    return len(real) == len(values) and len(values) >= 2


def marks_of(points: Sequence[tuple[float, Mapping[str, Any]]]) -> list[Mark]:
    """From figures of simulation.json, by x."""
    found = [Mark(x, float(each["value"]), each.get("low"), each.get("high")) for x, each in points]
    return sorted(found, key=lambda mark: mark.x)
