"""What the index knows of one run. Reading it from its directory: read.py."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from reports.store import names

if TYPE_CHECKING:
    from reports.store.forms import Run

Json = dict[str, Any]
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
    repeat: int
    name: str
    unit: str
    size_bytes: int | None
    value: float
    bound: float | None = None


@dataclass(frozen=True)
class Traffic:
    """What one NIC sent in one repeat."""

    arm: str
    repeat: int
    host: str
    nic: str
    tx_bytes: int


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

    def as_json(self) -> Run:
        return {
            "id": self.id,
            "made": self.made.isoformat() if self.made else None,
            "experiment": self.experiment,
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "bed": self.bed,
            "fingerprint": self.fingerprint,
            "build_id": self.build_id,
            "seed": self.seed,
            "source": self.source,
            "arms": list(self.arms),
            "tags": list(self.tags),
            "reason": self.reason or None,
        }
