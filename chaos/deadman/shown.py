"""What `r2cc panic --json` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.deadman import panic
from harness.hosts.lease import Holder
from harness.schemas.form import ExitCode, form


@dataclass(frozen=True)
class ShownRecord:
    id: str
    fault: Mapping[str, Any] | None
    """as the experiment has it"""
    controller: str | None
    was: str
    left_s: float | None
    proof: str | None
    problem: str | None

    @classmethod
    def of(cls, record: panic.Record) -> ShownRecord:
        found = record.found
        return cls(
            id=found.id,
            fault=found.about.get("fault"),
            controller=found.about.get("controller"),
            was=found.state,
            left_s=found.left_s,
            proof=record.proof or None,
            problem=record.problem or None,
        )


@dataclass(frozen=True)
class ShownHost:
    name: str
    clean: bool
    error: str | None
    holder: Holder | None
    records: Sequence[ShownRecord]
    leftovers: Sequence[str]
    problems: Sequence[str]

    @classmethod
    def of(cls, report: panic.Report) -> ShownHost:
        return cls(
            name=report.host,
            clean=report.clean,
            error=None if report.error is None else report.error.message,
            holder=report.holder,
            records=[ShownRecord.of(record) for record in report.records],
            leftovers=report.removed,
            problems=report.problems,
        )


@form("panic", "r2cc panic")
@dataclass(frozen=True)
class Panic:
    """What became of every host."""

    inventory: str
    dry_run: bool
    exit_code: ExitCode
    hosts: Sequence[ShownHost]
