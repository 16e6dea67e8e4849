"""campaign.json: which cells are done and what they came to, so that the next call goes on from there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from chaos.campaign.model import Campaign, Cell
from harness.config import jsons
from harness.config.files import Missing, Unreadable
from harness.errors import UsageError
from harness.files.rundir import RunDir

SCHEMA = 1
FILE = "campaign.json"
PENDING, DONE, FAILED = "pending", "done", "failed"


@dataclass(frozen=True)
class CellState:
    """One cell. `attempts` counts the runs of it that failed; those that never began, or were interrupted, do not."""

    name: str
    experiment: str
    fingerprint: str
    state: str = PENDING
    verdict: str | None = None
    exit_code: int | None = None
    attempts: int = 0
    seconds: float | None = None
    directory: str | None = None
    """Of its run, relative to the campaign's."""
    build_id: str | None = None
    reasons: tuple[str, ...] = ()

    @classmethod
    def of(cls, cell: Cell) -> CellState:
        return cls(cell.name, cell.experiment.name, cell.fingerprint)

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> CellState:
        """Raises KeyError or TypeError for what is none."""
        known = {part.name: value[part.name] for part in fields(cls)}
        return cls(**{**known, "reasons": tuple(known["reasons"])})


@dataclass
class State:
    """All cells in the file's order; `dropped` are those that the file no longer has, should it have them again."""

    folder: Path
    name: str
    description: str
    cells: dict[str, CellState]
    dropped: dict[str, CellState] = field(default_factory=dict)

    def change(self, name: str, **values: Any) -> None:
        """Replaces fields of one cell, and writes the file."""
        self.cells[name] = replace(self.cells[name], **values)
        self.save()

    def as_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "name": self.name,
            "description": self.description,
            "cells": [asdict(cell) for cell in self.cells.values()],
            "dropped": [asdict(cell) for cell in self.dropped.values()],
        }

    def save(self) -> None:
        """Whole or not at all."""
        RunDir(self.folder).write_json_as(FILE, "campaign", self.as_json())


def resume(folder: Path, campaign: Campaign) -> State:
    """Where the campaign stands in a folder; nothing is written.

    A cell that is asked for otherwise than it was run, or whose run is gone, is to be run again. Raises UsageError for
    a folder that holds something else.
    """
    name, known = _known(folder)
    if name is not None and name != campaign.name:
        raise UsageError(f"{folder} holds the campaign {name}, not {campaign.name}", "give another --out")
    cells = {cell.name: _state_of(cell, known.pop(cell.name, None), folder) for cell in campaign.cells}
    return State(folder, campaign.name, campaign.description, cells, known)


def _state_of(cell: Cell, known: CellState | None, folder: Path) -> CellState:
    fresh = CellState.of(cell)
    if known is None or known.fingerprint != fresh.fingerprint:
        return fresh
    lost = known.state == DONE and not (folder / str(known.directory) / "summary.json").is_file()
    return fresh if lost else replace(known, experiment=fresh.experiment)


def _known(folder: Path) -> tuple[str | None, dict[str, CellState]]:
    path = folder / FILE
    try:
        value = jsons.mapping_of(path, schema=SCHEMA)
        return str(value["name"]), _by_name(map(CellState.read, [*value["dropped"], *value["cells"]]))
    except Missing:
        return None, {}
    except Unreadable as error:
        raise UsageError(f"cannot use {path}: {error.message}", "give another --out") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"cannot use {path}: {type(error).__name__}: {error}", "give another --out") from error


def _by_name(cells: Iterable[CellState]) -> dict[str, CellState]:
    return {cell.name: cell for cell in cells}
