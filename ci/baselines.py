"""Baselines: stored runs that carry the tag `baseline/NAME`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.config.words import listed
from harness.errors import UsageError
from harness.schemas.form import form
from reports.store.entry import SAY_NOTHING, Entry, Run
from reports.store.store import Store, Wanted

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}")
TAG = "baseline/"
USUAL = "main"
"""The one that may begin by itself: any other name may be a misspelt one."""
USELESS = ("void", *SAY_NOTHING)


@form("baseline", "r2cc ci baseline show")
@dataclass(frozen=True)
class Baseline:
    """A baseline and its runs."""

    baseline: str
    runs: Sequence[Run]


@form("baseline_recorded", "r2cc ci baseline record")
@dataclass(frozen=True)
class Recorded:
    """What became part of a baseline."""

    baseline: str
    runs: Sequence[str]
    """ids"""


def runs_of(store: Store, name: str, *, may_begin: bool = False) -> list[Entry]:
    """Of a baseline. UsageError for what can be no name, and where there is no such baseline and it may not begin."""
    if not NAME.fullmatch(name):
        raise UsageError(f"'{name}' is no name of a baseline", "letters, digits and ._- make one")
    runs = store.runs(Wanted(tag=TAG + name))
    if not runs and not may_begin:
        raise UsageError(f"there is no baseline '{name}'", _instead(name, names(store)))
    return runs


def _instead(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    record = f"r2cc ci baseline record RUN --baseline {name}"
    return f"--baseline {near[0]}, or {record}" if near else f"{record} (there are: {listed(known) or 'none'})"


def names(store: Store) -> list[str]:
    """Of all baselines that have a run."""
    tags = {tag for run in store.runs() for tag in run.tags}
    return sorted(tag.removeprefix(TAG) for tag in tags if tag.startswith(TAG))


def useless(runs: Sequence[Entry]) -> list[str]:
    """Those that nothing can be measured against."""
    return [run.id for run in runs if run.verdict in USELESS]


def check_fit(runs: Sequence[Entry]) -> None:
    """UsageError for a run that says nothing: no change could be judged against it."""
    for run in runs:
        if run.verdict in USELESS:
            raise UsageError(f"{run.id} cannot be a baseline: it is {run.verdict}", "r2cc runs list --verdict holds")


def record(store: Store, runs: Sequence[Entry], name: str, *, replace: bool) -> None:
    """Makes the runs part of a baseline; `replace`: instead of those of the same hardware."""
    old = runs_of(store, name, may_begin=True)
    for run in old if replace else ():
        if run.fingerprint in {each.fingerprint for each in runs}:
            store.tag(run.id, (), [TAG + name])
    for run in runs:
        store.tag(run.id, [TAG + name])
