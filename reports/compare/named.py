"""Comparisons of runs by what a user calls them: ids, tags, directories, RUN:ARM."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError
from reports.compare import groups
from reports.compare.model import Comparison, compare
from reports.store.store import read_runs

if TYPE_CHECKING:
    from reports.store.entry import Entry
    from reports.store.store import Store


def compared(store: Path, words: Sequence[str]) -> list[Comparison]:
    """All against the first; a word may be the path of a run, too.

    UsageError for what there is not, and where there is nothing to compare.
    """
    named = [_named(word) for word in words]
    return _compared(read_runs(store, [name for name, _ in named]), [arm for _, arm in named])


def compared_in(store: Store, words: Sequence[str]) -> list[Comparison]:
    """The same of runs of a store alone."""
    named = [_named(word) for word in words]
    return _compared(store.read([name for name, _ in named]), [arm for _, arm in named])


def _compared(read: Sequence[Entry], arms: Sequence[str | None]) -> list[Comparison]:
    runs = groups.chosen(read, arms)
    sides = groups.arms_of(runs[0]) if len(runs) == 1 else groups.grouped(runs)
    if len(sides) < 2:
        raise UsageError(f"{runs[0].id} has one arm: there is nothing to compare it with", "name two runs")
    return [compare(sides[0], each) for each in sides[1:]]


def _named(word: str) -> tuple[str, str | None]:
    """(run, arm) of RUN:ARM; a directory whose name has a colon is a directory."""
    run, colon, arm = word.rpartition(":")
    return (run, arm) if colon and not Path(word).is_dir() else (word, None)
