"""Simulations beside each other. A model has no scatter: what differs, differs, if by more than is worth a word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from chaos.simulate.workloads.figures import about
from reports.compare.row import Outcome, Row

if TYPE_CHECKING:
    from reports.compare.groups import Group

BED = "simulation"


def are(*groups: Group) -> bool:
    """Whether all runs are simulations."""
    return all(run.bed == BED for group in groups for run in group.runs)


def rows(before: Group, after: Group, minimum_effect: float) -> list[Row]:
    """Every figure of which it is known what is better."""
    ours, theirs = _values(after), _values(before)
    found = []
    for key in dict.fromkeys([*theirs, *ours]):
        arm, name, unit = key
        old, new = theirs.get(key), ours.get(key)
        counts = (int(old is not None), int(new is not None))
        found.append(Row(arm, name, unit, None, old, new, None, counts, _outcome(name, old, new, minimum_effect)))
    return found


def _values(group: Group) -> Mapping[tuple[str, str, str], float]:
    """Of its first run: simulations of one file, seed and code are the same."""
    return {
        (figure.arm, figure.name, figure.unit): figure.value
        for figure in group.runs[0].figures
        if about(figure.name.partition("{")[0]).better != "neither"
    }


def _outcome(name: str, old: float | None, new: float | None, minimum_effect: float) -> Outcome:
    if old is None or new is None:
        return "only one has it"
    if abs(new - old) <= minimum_effect * abs(old):
        return "no difference shown"
    more_is_better = about(name.partition("{")[0]).better == "more"
    return "better" if (new > old) is more_is_better else "worse"
