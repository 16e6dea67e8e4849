"""What the index knows of one run. Reading it from its directory: read.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Annotated

from harness.schemas.form import Limits, form, left_out
from reports.store import names

UNFINISHED = "unfinished"
"""The verdict of a run that is still running, or was killed."""
UNREADABLE = "unreadable"
"""The verdict of a run that is damaged, or of another version; `reason` says why."""
SAY_NOTHING = ("failed", UNFINISHED, UNREADABLE)
"""Verdicts of runs that have no figures to judge; those of a void one are there, and do not count."""
UNKNOWN_TAGS = ("(unreadable)",)
"""Of a run whose tags cannot be read; they protect it from being pruned as any others."""


@dataclass(frozen=True)
class Figure:
    """One number of a run; `series` by name, arm and message size."""

    arm: str
    repeat: Annotated[int, Limits(minimum=-1)]
    """-1: of the whole arm"""
    name: str
    unit: str
    size_bytes: int | None
    value: float
    bound: float | None = None
    cut: bool | None = left_out()
    """true: of a part alone, as the repeat was interrupted"""


@dataclass(frozen=True)
class Traffic:
    """What one NIC sent in one repeat."""

    arm: str
    repeat: int
    host: str
    nic: str
    tx_bytes: int


@dataclass(frozen=True)
class Run:
    """A run as commands print it."""

    id: str
    made: str | None
    """ISO 8601; null where the directory's name does not say"""
    experiment: str
    verdict: str
    """holds, deviated, failed, void, unfinished or unreadable"""
    exit_code: int | None
    bed: str
    fingerprint: str
    build_id: str
    seed: int | None
    source: str
    """r2cc, or the tool whose figures were imported"""
    arms: Sequence[str]
    tags: Sequence[str]
    reason: str | None
    """why it is unreadable"""


@form("runs", "r2cc runs list")
@dataclass(frozen=True)
class Runs:
    """Of a store."""

    store: str
    runs: Sequence[Run]


@form("run", "r2cc runs show, r2cc runs tag")
@dataclass(frozen=True)
class RunShown:
    """One run; with its figures where they were asked for."""

    run: Run
    figures: Sequence[Figure] | None = left_out()


@dataclass(frozen=True)
class Entry:
    """A run as `r2cc runs list` knows it; `traffic` is not in the index, only read from the directory."""

    id: str
    made: datetime | None
    experiment: str
    verdict: str
    exit_code: int | None
    bed: str
    fingerprint: str
    build_id: str
    seed: int | None
    arms: tuple[str, ...]
    source: str
    tags: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    traffic: tuple[Traffic, ...] = ()
    reason: str = ""
    """Why it cannot be read."""

    @property
    def folder(self) -> str:
        """The name of its directory."""
        return names.name_of(self.id)

    def shown(self) -> Run:
        same = {each.name: getattr(self, each.name) for each in fields(Run)}
        made = self.made.isoformat() if self.made else None
        return Run(**{**same, "made": made, "reason": self.reason or None})
