"""Which runs stand for one thing: grouped by what differs among them, so that the rest are repeats. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from harness.errors import UsageError
from harness.schemas.form import Limits
from reports.store.entry import Entry

KEYS = {"experiment": "experiment", "bed": "bed", "hardware": "fingerprint", "build": "build_id", "arms": "arms"}
"""What tells groups apart, and the field of a run that says it."""
Trait = Annotated[str, Limits(enum=[*KEYS])]


@dataclass(frozen=True)
class Group:
    """Runs that stand for one thing, such as a build; `label` is what it is called beside the others.

    `by` are the words of KEYS in which the groups differ; none when each run stands for itself.
    """

    label: str
    runs: tuple[Entry, ...]
    by: tuple[str, ...] = ()


def grouped(runs: Sequence[Entry]) -> list[Group]:
    """Each run for itself, or, where they differ in one of KEYS, those together that do not: repeats."""
    found: dict[tuple[object, ...], list[Entry]] = {}
    for run in runs:
        found.setdefault(tuple(getattr(run, field) for field in KEYS.values()), []).append(run)
    if len(found) < 2:
        return [Group(run.id, (run,)) for run in runs]
    by = tuple(word for word, column in zip(KEYS, zip(*found, strict=True), strict=True) if len(set(column)) > 1)
    return [Group(_label(several, by), tuple(several), by) for several in found.values()]


def _label(several: Sequence[Entry], by: Sequence[str]) -> str:
    """The run's id, or what its group has in common that others have not."""
    if len(several) == 1:
        return several[0].id
    return f"{', '.join(f'{word} {_short(several[0], word)}' for word in by)} ({len(several)} runs)"


def _short(run: Entry, word: str) -> str:
    value = getattr(run, KEYS[word])
    text = " ".join(value) if isinstance(value, tuple) else str(value or "unknown")
    return text[:8] if word == "build" else text


def arms_of(run: Entry) -> list[Group]:
    """One run's arms as if they were runs of one arm each, to be compared with each other."""
    return [Group(arm, (only(run, arm),), ("arms",)) for arm in run.arms]


def only(run: Entry, arm: str) -> Entry:
    """The run as if it had this arm alone, called `*`: it stands beside other arms. UsageError without that arm."""
    if arm not in run.arms:
        raise UsageError(f"{run.id} has no arm '{arm}'", f"it has {', '.join(run.arms) or 'none'}")
    return replace(
        run,
        arms=(arm,),
        figures=tuple(replace(each, arm="*") for each in run.figures if each.arm == arm),
        traffic=tuple(replace(each, arm="*") for each in run.traffic if each.arm == arm),
    )


def chosen(runs: Sequence[Entry], arms: Sequence[str | None]) -> list[Entry]:
    """Runs with the arms that were asked for: of all or of none. UsageError where it is not clear which is meant."""
    if not any(arms):
        return list(runs)
    found = []
    for run, arm in zip(runs, arms, strict=True):
        if arm is None and len(run.arms) != 1:
            raise UsageError(f"say which arm of {run.id} is meant", f"{run.id}:{(*run.arms, 'ARM')[0]}")
        found.append(replace(one := only(run, arm or run.arms[0]), id=f"{one.id}:{one.arms[0]}"))
    return found
