"""From takes to what stands on the page: values, their middle and interval, and whether the aim is held. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from chaos.analysis.stats import median, median_interval, percentile
from reports.scoreboard.board import Board, Cell, Wanted
from reports.scoreboard.takes import Shelf, Take

Verdict = Literal["held", "missed", "void", "shown", "not measured"]
WHOLE = "the whole command"
FEWEST_FOR_INTERVAL, FEWEST_FOR_P99 = 6, 20
"""Below these an interval would be the extremes, and a p99 the largest value."""
INTERVAL = re.compile(r"95 % in ([0-9.]+)\.\.([0-9.]+[0-9])")
"""In a figure's name, where benchmarks said it before figures had `low` and `high`."""


@dataclass(frozen=True)
class Found:
    """A figure of one report."""

    name: str
    value: float | None
    bound: float | None
    unit: str
    at_least: bool = False
    void: bool = False
    low: float | None = None
    high: float | None = None
    """The 95 % interval of the value, or the extremes of few repeats; None where the report does not say."""
    repeats: int | None = 1
    """Of what was measured, in this one figure; None where the report does not say."""


Spread = Literal["95 %", "all"]


@dataclass(frozen=True)
class Row:
    """A figure over all takes of the newest code."""

    cell: Cell
    wanted: Wanted
    takes: Sequence[Take]
    values: Sequence[float]
    """Of takes that are not void, else of all."""
    unit: str
    aim: float | None
    at_least: bool
    verdict: Verdict
    repeats: int | None
    """How many values there are; of the only one, how often its report says that it was measured, None: it does not."""
    said: tuple[float, float] | None = None
    """The only value's own interval, where its report has one."""
    before: Sequence[float] = ()
    """Of takes of older code by the same command, without void ones."""

    @property
    def middle(self) -> float | None:
        return median(self.values)

    @property
    def interval(self) -> tuple[float, float] | None:
        return median_interval(self.values) if len(self.values) >= FEWEST_FOR_INTERVAL else None

    @property
    def spread(self) -> tuple[Spread, float, float] | None:
        """95 % of the median's interval where there are enough for one, else all that was measured."""
        if self.interval is not None:
            return "95 %", *self.interval
        if self.said is not None:
            few = self.repeats is not None and self.repeats < FEWEST_FOR_INTERVAL
            return ("all" if few else "95 %"), *self.said
        return ("all", min(self.values), max(self.values)) if len(self.values) > 1 else None

    def kept(self, values: Sequence[float]) -> int:
        """How many keep to the aim."""
        return sum(_keeps(value, self.aim, at_least=self.at_least) for value in values)

    @property
    def p99(self) -> float | None:
        return percentile(self.values, 99) if len(self.values) >= FEWEST_FOR_P99 else None


def rows(board: Board, shelf: Shelf) -> list[Row]:
    """One for each figure of each cell, in the file's order."""
    found = []
    for cell in board.cells:
        takes = shelf.takes(cell.name)
        last = newest(takes)
        earlier = [take for take in takes if take not in last and list(take.command) == list(cell.run)]
        found += [row(cell, wanted, last, earlier) for wanted in cell.figures]
    return found


def newest(takes: Sequence[Take]) -> list[Take]:
    """Those of the code of the last one."""
    last = max(takes, key=lambda take: take.at, default=None)
    return [take for take in takes if last is not None and take.code == last.code]


def row(cell: Cell, wanted: Wanted, takes: Sequence[Take], earlier: Sequence[Take] = ()) -> Row:
    each = _of_wanted(wanted, takes)
    known = [found for found in each if found.value is not None]
    used = [found for found in known if not found.void] or known
    values = [float(found.value) for found in used if found.value is not None]
    last = each[-1] if each else None
    aim = wanted.aim if wanted.aim is not None else last.bound if last else None
    at_least = wanted.at_least if wanted.at_least is not None else bool(last and last.at_least)
    void = 2 * sum(found.void for found in each) > len(each)
    verdict = _verdict(median(values), aim, at_least=at_least, void=void, there=bool(each))
    only = used[0] if len(used) == 1 else None
    said = (only.low, only.high) if only and only.low is not None and only.high is not None else None
    before = [float(found.value) for found in _of_wanted(wanted, earlier) if found.value is not None and not found.void]
    repeats = only.repeats if only else len(used)
    unit = last.unit if last else ""
    return Row(cell, wanted, takes, values, unit, aim, at_least, verdict, repeats, said, before)


def _of_wanted(wanted: Wanted, takes: Sequence[Take]) -> list[Found]:
    return [found for take in takes for found in told(take) if re.search(wanted.of, found.name)]


def _verdict(middle: float | None, aim: float | None, *, at_least: bool, void: bool, there: bool) -> Verdict:
    """A figure that could not be measured misses its aim: it must not pass for want of a number."""
    if not there:
        return "not measured"
    if void:
        return "void"
    if aim is None:
        return "shown"
    return "held" if middle is not None and _keeps(middle, aim, at_least=at_least) else "missed"


def _keeps(value: float, aim: float | None, *, at_least: bool) -> bool:
    return aim is not None and (value >= aim if at_least else value <= aim)


def unclear(cell: Cell, take: Take) -> list[str]:
    """What is wrong with the cell's expressions: each must find one figure of a take, neither none nor several."""
    names = sorted({found.name for found in told(take)})
    problems = []
    for wanted in cell.figures:
        mine = [name for name in names if re.search(wanted.of, name)]
        if not mine:
            problems.append(f"'{wanted.of}' finds none of {'; '.join(names) or 'no figures'}")
        elif len(mine) > 1:
            problems.append(f"'{wanted.of}' finds several: {'; '.join(mine)}")
    return problems


def told(take: Take) -> Iterator[Found]:
    """The report's figures, and how long the whole command took."""
    yield from of(take.report)
    yield Found(WHOLE, take.seconds, None, "s")


def of(report: Mapping[str, Any]) -> Iterator[Found]:
    """A benchmark's figures, or the checks and metrics of an experiment's summary, as `ARM: NAME`."""
    for each in report.get("figures", ()):
        least, void = each.get("at_least", False), each.get("void", False)
        low, high, repeats = each.get("low"), each.get("high"), each.get("repeats")
        if low is None and (named := INTERVAL.search(each["name"])):
            low, high = float(named[1]), float(named[2])
        yield Found(each["name"], each["measured"], each["bound"], each["unit"], least, void, low, high, repeats)
    for arm in report.get("arms", ()):
        for each in _of_arm(arm):
            yield each if arm["expect"] == "holds" else replace(each, bound=None)


def _of_arm(arm: Mapping[str, Any]) -> Iterator[Found]:
    """Checks have bounds in each arm, but only one that is expected to hold has them for an aim."""
    name = arm["name"]
    yield from (_checked(name, each) for each in arm["checks"])
    yield from (_metric(name, each, void=False) for each in arm["metrics"])
    for run in arm["runs"]:
        void = bool(run["void"])
        yield from (_checked(name, each) for each in run["checks"])
        for fault in run["faults"]:
            for figure, value, unit in _of_fault(fault, run["healthy_ms"]["median"]):
                yield Found(f"{name}: fault {fault['id']} {figure}", value, None, unit, False, void)
        yield from (_metric(name, each, void=void) for each in run["metrics"])


def _of_fault(fault: Mapping[str, Any], healthy_ms: float | None) -> Iterator[tuple[str, float | None, str]]:
    """(name, value, unit): times, and two of them over a healthy iteration's."""
    for name in ("detect_ms", "stall_ms", "longest_ms", "degraded_ms", "return_ms", "beyond_ms"):
        yield name, fault[name], "ms"
    for name in ("longest", "degraded"):
        took = fault[f"{name}_ms"]
        yield f"{name} of healthy", took / healthy_ms if took is not None and healthy_ms else None, "ratio"


def _metric(arm: str, each: Mapping[str, Any], *, void: bool) -> Found:
    return Found(f"{arm}: metric {each['name']}", each["value"], each["bound"], each["unit"], False, void)


def _checked(arm: str, each: Mapping[str, Any]) -> Found:
    bound = each["bound"]
    void = each["outcome"] == "void"
    return Found(
        f"{arm}: {each['name']}", _number(each["value"]), _number(bound), each["unit"], isinstance(bound, bool), void
    )


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
