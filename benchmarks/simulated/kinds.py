"""Published kinds of network failure with their frequency, and the fault that models each: input of coverage tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from chaos.simulate.faults.processes import PROCESSES
from chaos.simulate.faults.trace import Kind, What
from harness.config import yaml_text

FILE = Path(__file__).with_name("kinds.yaml")


@dataclass(frozen=True, slots=True)
class PublishedKind:
    """`share`: of its source's network failures, where that counted them; `per_month`: of one element."""

    source: str
    kind: str
    fault: Kind
    what: What
    process: str
    count: int | None = None
    share: float | None = None
    per_month: float | None = None
    silent: bool = False
    note: str = ""


@cache
def published() -> tuple[PublishedKind, ...]:
    groups: list[Mapping[str, Any]] = yaml_text.value_of(FILE.read_text(encoding="utf-8"))
    return tuple(kind for group in groups for kind in _group(group))


def _group(group: Mapping[str, Any]) -> list[PublishedKind]:
    total = sum(row.get("count", 0) for row in group["kinds"])
    return [_kind(group["source"], row, total) for row in group["kinds"]]


def _kind(source: str, row: Mapping[str, Any], total: int) -> PublishedKind:
    if row["process"] not in PROCESSES:
        raise ValueError(f"{FILE.name}: {row['kind']}: no process {row['process']}")
    count, fault = row.get("count"), row["fault"]
    return PublishedKind(
        source=source,
        kind=row["kind"],
        fault=fault["kind"],
        what=fault["what"],
        process=row["process"],
        count=count,
        share=count / total if count else None,
        per_month=row.get("per_month"),
        silent=fault.get("silent", False),
        note=row.get("note", ""),
    )
