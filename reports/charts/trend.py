"""One figure over all runs of an experiment, with the places where it changed for good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.charts import svg
from reports.statistics.changes import Change, changes
from reports.store.entry import Entry, Figure
from reports.store.store import Store, Wanted

COUNTED = ("holds", "deviated")
"""Verdicts of runs whose times say something."""


@dataclass(frozen=True)
class Size:
    """Of a picture, with the room for labels at its left."""

    width: float = 720.0
    height: float = 260.0
    left: float = 60.0
    foot: float = 40.0


@dataclass(frozen=True)
class Point:
    """The median of one run's repeats."""

    run: Entry
    value: float


@dataclass(frozen=True)
class History:
    """Of one series on one hardware and bed, oldest first."""

    name: str
    unit: str
    points: tuple[Point, ...]
    changes: tuple[Change, ...]

    def svg(self, size: Size | None = None, ident: str = "history", marked: str = "") -> str:
        """A line of all values; a mark where they changed, with by how much; a dot at the run whose id is `marked`."""
        room = size or Size()
        top, bottom, right = 20.0, room.height - room.foot, room.width - 20
        values = [point.value for point in self.points]
        across = svg.Scale(0, max(1, len(values) - 1), room.left, right)
        up = svg.Scale(0, max(values) * 1.15 or 1.0, bottom, top)
        ticks = svg.nice_ticks(0, up.high, 5)
        parts = [svg.line(room.left, up(tick), right, up(tick), "grid") for tick in ticks]
        parts += [svg.text(room.left - 5, up(tick) + 4, f"{tick:g}", anchor="end") for tick in ticks]
        parts.append(svg.path([(across(n), up(value)) for n, value in enumerate(values)], "rx"))
        for change in self.changes:
            x = across(change.index)
            parts.append(svg.line(x, top, x, bottom, "axis"))
            parts.append(svg.text(x + 4, top + 8, f"{(change.shift.ratio - 1) * 100:+.1f} %", "label"))
        parts += [_mark(across(n), up(p.value), right) for n, p in enumerate(self.points) if p.run.id == marked]
        parts += _days(self.points, room.left, right, bottom)
        ends = f"from {values[0]:g} to {values[-1]:g} {self.unit}"
        text = f"{len(values)} runs, {ends}; {len(self.changes)} lasting changes."
        return svg.document(
            room.width, room.height, "".join(parts), title=f"{self.name} over time", text=text, ident=ident
        )


def history(store: Store, experiment: str, arm: str, figure: str, size_bytes: int | None) -> History | None:
    """On the hardware and bed that ran last; None without a value."""
    runs = [run for run in store.runs(Wanted(experiment=experiment)) if run.verdict in COUNTED]
    same = [run for run in reversed(runs) if (run.fingerprint, run.bed) == (runs[0].fingerprint, runs[0].bed)]
    found = store.figures(run.id for run in same)
    return of(same, found, f"{experiment}, {arm}: {figure}", (arm, figure, size_bytes))


def of(
    runs: Sequence[Entry], found: Mapping[str, Sequence[Figure]], name: str, series: tuple[str, str, int | None]
) -> History | None:
    """The history of a series (arm, figure, message size) over comparable runs, oldest first, whose figures are found
    by their ids; None without a value."""
    points, unit = [], ""
    for run in runs:
        mine = [each for each in found[run.id] if _is(each, series)]
        if mine:
            unit = mine[0].unit
            points.append(Point(run, sorted(each.value for each in mine)[len(mine) // 2]))
    if not points:
        return None
    positive = all(point.value > 0 for point in points)
    changed = changes([point.value for point in points]) if positive else []
    return History(name, unit, tuple(points), tuple(changed))


def words(changed: Sequence[Change], points: Sequence[Point]) -> list[str]:
    """Each change in a sentence, for those who do not see the picture."""
    return [
        f"{(change.shift.ratio - 1) * 100:+.1f} % since {points[change.index].run.id} (p {change.p_adjusted:.2g})"
        for change in changed
    ]


def _is(found: Figure, series: tuple[str, str, int | None]) -> bool:
    return (found.arm, found.name, found.size_bytes) == series and found.repeat >= 0


def _mark(x: float, y: float, right: float) -> str:
    dot = svg.tag("circle", svg.tag("title", "this run"), cx=x, cy=y, r=4, class_="dot-hit")
    return dot + svg.text(min(x, right) + 4, y - 8, "this run", "label", "end")


def _days(points: Sequence[Point], left: float, right: float, bottom: float) -> list[str]:
    """The days of the first run and the last one, where they are known."""
    first, last = points[0].run.made, points[-1].run.made
    if first is None or last is None or len(points) < 2:
        return []
    ends = ((left, first, "start"), (right, last, "end"))
    return [svg.text(x, bottom + 16, f"{made:%Y-%m-%d}", anchor=anchor) for x, made, anchor in ends]
