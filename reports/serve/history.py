"""One figure over all runs of an experiment, with the places where it changed for good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports import svg
from reports.statistics.changes import Change, changes
from reports.store.entry import Entry, Figure
from reports.store.store import Store, Wanted

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 720.0, 260.0, 60.0, 20.0, 220.0


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

    def svg(self) -> str:
        """A line of all values; a mark where they changed, with by how much."""
        values = [point.value for point in self.points]
        across = svg.Scale(0, max(1, len(values) - 1), LEFT, WIDTH - 20)
        up = svg.Scale(0, max(values) * 1.15, BOTTOM, TOP)
        ticks = svg.nice_ticks(0, up.high, 5)
        parts = [svg.line(LEFT, up(tick), WIDTH - 20, up(tick), "grid") for tick in ticks]
        parts += [svg.text(LEFT - 5, up(tick) + 4, f"{tick:g}", anchor="end") for tick in ticks]
        parts.append(svg.path([(across(n), up(value)) for n, value in enumerate(values)], "rx"))
        for change in self.changes:
            x = across(change.index)
            parts.append(svg.line(x, TOP, x, BOTTOM, "axis"))
            parts.append(svg.text(x + 4, TOP + 8, f"{(change.shift.ratio - 1) * 100:+.1f} %", "label"))
        ends = f"from {values[0]:g} to {values[-1]:g} {self.unit}"
        text = f"{len(values)} runs, {ends}; {len(self.changes)} lasting changes."
        return svg.document(WIDTH, HEIGHT, "".join(parts), title=f"{self.name} over time", text=text, ident="history")


def history(store: Store, experiment: str, arm: str, figure: str, size_bytes: int | None) -> History | None:
    """On the hardware and bed that ran last; None without a value."""
    runs = [run for run in store.runs(Wanted(experiment=experiment)) if run.verdict in ("holds", "deviated")]
    same = [run for run in reversed(runs) if (run.fingerprint, run.bed) == (runs[0].fingerprint, runs[0].bed)]
    found = store.figures(run.id for run in same)
    points, unit = [], ""
    for run in same:
        mine = [each for each in found[run.id] if _is(each, arm, figure, size_bytes)]
        if mine:
            unit = mine[0].unit
            points.append(Point(run, sorted(each.value for each in mine)[len(mine) // 2]))
    if not points:
        return None
    positive = all(point.value > 0 for point in points)
    changed = changes([point.value for point in points]) if positive else []
    return History(f"{experiment}, {arm}: {figure}", unit, tuple(points), tuple(changed))


def _is(found: Figure, arm: str, figure: str, size_bytes: int | None) -> bool:
    return (found.arm, found.name, found.size_bytes) == (arm, figure, size_bytes) and found.repeat >= 0


def words(changed: Sequence[Change], points: Sequence[Point]) -> list[str]:
    """Each change in a sentence, for those who do not see the picture."""
    return [
        f"{(change.shift.ratio - 1) * 100:+.1f} % since {points[change.index].run.id} (p {change.p_adjusted:.2g})"
        for change in changed
    ]
