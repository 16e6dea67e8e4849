"""Several curves over one logarithmic axis, told apart by colour and by dashes, with what each is in the legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from reports.charts import svg
from reports.charts.frame import LEFT, RIGHT, WIDTH, Key, grid

TOP, BOTTOM = 14.0, 190.0
HEIGHT = BOTTOM + 36
OURS, BASE = (0, 2, 3, 5), (1, 4, 2)
"""Styles of `.line-N`: arms of ours are in colour, what they are compared with in grey."""
MOST_MARKS = 60


@dataclass(frozen=True)
class Curve:
    """Points by growing x; `told` says each of them, and with it each gets a mark."""

    name: str
    points: Sequence[tuple[float, float]]
    told: Sequence[str] = ()
    bound: bool = False
    base: bool = False


@dataclass(frozen=True)
class Axes:
    """Both scales with their ticks and what these are called."""

    across: svg.Scale
    up: svg.Scale
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    x_name: str


def across(low: float, high: float) -> svg.Scale:
    """A logarithmic scale over the width of a panel; a single value gets some room on both sides."""
    if low == high:
        low, high = low / 2, high * 2
    return svg.Scale(low, high, LEFT, WIDTH - RIGHT, log=True)


def marks(curves: Sequence[Curve], axes: Axes) -> list[str]:
    """Everything that a panel of these curves shows."""
    parts = [grid(axes.up, [v for v, _ in axes.y_ticks], [label for _, label in axes.y_ticks]), _x_axis(axes)]
    for curve, cls in zip(curves, _classes(curves), strict=True):
        places = [(axes.across(x), axes.up(y)) for x, y in curve.points]
        parts.append(svg.path(places, cls))
        if 0 < len(curve.told) <= MOST_MARKS and not curve.bound:
            parts += [
                svg.tag("circle", svg.tag("title", escape(said)), cx=x, cy=y, r=2.4, class_=f"mark-{cls[-1]}")
                for (x, y), said in zip(places, curve.told, strict=True)
            ]
    return parts


def keys(curves: Sequence[Curve]) -> list[Key]:
    """The legend; bounds look alike and are told of once."""
    found = {
        ("bound" if curve.bound else curve.name): Key(cls, "bound" if curve.bound else curve.name)
        for curve, cls in zip(curves, _classes(curves), strict=True)
    }
    return [*found.values()]


def _classes(curves: Sequence[Curve]) -> list[str]:
    found, used = [], {True: 0, False: 0}
    for curve in curves:
        styles = BASE if curve.base else OURS
        found.append("bound" if curve.bound else f"line line-{styles[used[curve.base] % len(styles)]}")
        used[curve.base] += not curve.bound
    return found


def _x_axis(axes: Axes) -> str:
    parts = [svg.line(axes.across.start, BOTTOM, axes.across.end, BOTTOM, "axis")]
    for value, label in axes.x_ticks:
        x = axes.across(value)
        parts.append(svg.line(x, BOTTOM, x, BOTTOM + 4, "axis"))
        parts.append(svg.text(x, BOTTOM + 16, label, anchor="end" if x > WIDTH - 24 else "middle"))
    parts.append(svg.text(axes.across.end, BOTTOM + 31, axes.x_name, anchor="end"))
    return "".join(parts)
