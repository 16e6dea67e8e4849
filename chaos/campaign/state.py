"""campaign.json: which cells are done and what they came to, so that the next call goes on from there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal

from chaos.analysis.model import Verdict
from chaos.campaign.model import Campaign, Cell
from harness.config import jsons
from harness.config.files import Missing, Unreadable
from harness.errors import UsageError
from harness.files.rundir import RunDir
from harness.schemas.form import Amount, Count, ExitCode, form

SCHEMA = 1
FILE = "campaign.json"
Progress = Literal["pending", "done", "failed"]
PENDING: Final = "pending"
DONE: Final = "done"
FAILED: Final = "failed"


@dataclass(frozen=True)
class CellState:
    """One cell. `attempts` counts the runs of it that failed; those that never began, or were interrupted, do not."""

    name: str
    experiment: str
    fingerprint: str
    """of all that is asked for; another one means: run it again"""
    state: Progress
    verdict: Verdict | None
    exit_code: Literal[0, 1, 3] | None
    attempts: Count
    """runs that failed"""
    seconds: Amount | None
    directory: str | None
    """of its run, relative to the campaign's"""
    build_id: str | None
    reasons: tuple[str, ...]

    @classmethod
    def of(cls, cell: Cell) -> CellState:
        return cls(cell.name, cell.experiment.name, cell.fingerprint, PENDING, None, None, 0, None, None, None, ())

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> CellState:
        """Raises KeyError or TypeError for what is none."""
        known = {part.name: value[part.name] for part in fields(cls)}
        return cls(**{**known, "reasons": tuple(known["reasons"])})


@form("campaign", "campaign.json of a campaign's directory")
@dataclass(frozen=True)
class Record:
    """What is known of a campaign's cells."""

    name: str
    description: str
    cells: Sequence[CellState]
    """in the file's order"""
    dropped: Sequence[CellState]
    """cells that the file no longer has"""


@form("campaign_result", "r2cc chaos campaign: campaign.json, and how it ended")
@dataclass(frozen=True)
class Ended(Record):
    """How a call of it ended."""

    exit_code: ExitCode
    left: Sequence[str]
    """cells still to be run"""


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

    def ended(self, exit_code: int, left: Sequence[str]) -> Ended:
        return Ended(self.name, self.description, [*self.cells.values()], [*self.dropped.values()], exit_code, left)

    def save(self) -> None:
        """Whole or not at all."""
        RunDir(self.folder).write_json(
            FILE, Record(self.name, self.description, [*self.cells.values()], [*self.dropped.values()])
        )


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
