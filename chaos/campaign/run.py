"""Runs the cells of a campaign that are left, one after the other, for as long as there is time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from chaos.analysis.model import DEVIATED
from chaos.analysis.stats import median
from chaos.campaign.model import Campaign, Cell
from chaos.campaign.state import DONE, FAILED, CellState, Progress, State
from harness.config import jsons
from harness.config.files import Unreadable
from harness.errors import R2ccError
from harness.schemas.form import Limits as Words
from harness.schemas.form import form

MOST_ATTEMPTS = 3
INTERRUPTED = 130
CELLS, FAILURES, OLD, RUNNING = "cells", "failed", "old", ".running"

RunCell = Callable[[Cell, Path], None]
"""Runs one experiment into a run directory below the path, and leaves its summary.json there."""


@dataclass(frozen=True)
class PlannedCell:
    name: str
    experiment: str
    arms: Sequence[str]
    repeats: Annotated[int, Words(minimum=1)]
    seed: int
    inventory: str
    minutes: float | None
    set: Mapping[str, Any]
    """what it changes in the experiment"""
    state: Progress
    why_not: str | None


@form("campaign_plan", "r2cc chaos campaign --dry-run: one entry a cell")
@dataclass(frozen=True)
class CampaignPlan:
    """What a call would run."""

    cells: Sequence[PlannedCell]


@dataclass(frozen=True)
class Limits:
    """What a call may do."""

    minutes: float | None = None
    only: Collection[str] | None = None
    """Names of cells; None: all."""
    retry: bool = False


@dataclass
class Runner:
    """One call. `tell` shows a line; `clock` is in seconds."""

    campaign: Campaign
    state: State
    limits: Limits
    run_cell: RunCell
    tell: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    began_s: float = field(init=False)
    _told: dict[str, str] = field(default_factory=dict, init=False)
    """Why cells could not be started, and the first of which that was said."""

    def __post_init__(self) -> None:
        self.began_s = self.clock()

    def run(self) -> None:
        """Raises KeyboardInterrupt when a cell was interrupted; that cell is as it was, what is done stays done."""
        self.state.save()
        self._keep_remains()
        for number, cell in enumerate(self.wanted(), start=1):
            place = f"[{number}/{len(self.wanted())}] {cell.name}"
            if (why_not := self.why_not(cell)) is None:
                self.tell(f"{place}: {cell.experiment.description or cell.experiment.name}{self._times(cell)}")
                self._run(cell)
                why_not = self._came_to(self.state.cells[cell.name])
            self.tell(f"{place}: {why_not}")

    def wanted(self) -> Sequence[Cell]:
        only = self.limits.only
        return [cell for cell in self.campaign.cells if only is None or cell.name in only]

    def why_not(self, cell: Cell) -> str | None:
        """Why a cell is not started now; None: it is."""
        known = self.state.cells[cell.name]
        if known.state == DONE:
            return f"done before ({known.verdict})"
        if known.state == FAILED and known.attempts >= MOST_ATTEMPTS and not self.limits.retry:
            return f"failed {known.attempts} times; --retry runs it again"
        left, needs = self.left_minutes(), self.estimate_minutes(cell)
        if left is not None and (left <= 0 or (needs is not None and needs > left)):
            takes = "" if needs is None else f", and it takes {needs:.1f}"
            return f"left for another call: {max(0.0, left):.1f} min are left{takes}"
        return None

    def planned(self, cell: Cell) -> PlannedCell:
        return PlannedCell(
            name=cell.name,
            experiment=os.path.relpath(cell.source),
            arms=cell.arms,
            repeats=cell.experiment.repeats,
            seed=cell.experiment.seed,
            inventory=str(cell.site),
            minutes=cell.minutes,
            set=cell.changes,
            state=self.state.cells[cell.name].state,
            why_not=self.why_not(cell),
        )

    def left_minutes(self) -> float | None:
        minutes = self.limits.minutes
        return None if minutes is None else minutes - (self.clock() - self.began_s) / 60

    def estimate_minutes(self, cell: Cell) -> float | None:
        """What the file says, else the median of what cells took so far."""
        if cell.minutes is not None:
            return cell.minutes
        took = median([known.seconds for known in self.state.cells.values() if known.seconds is not None])
        return None if took is None else took / 60

    def _times(self, cell: Cell) -> str:
        needs, left = self.estimate_minutes(cell), self.left_minutes()
        times = [f"about {needs:.1f} min"] if needs is not None else []
        times += [f"{left:.1f} min left"] if left is not None else []
        return f" ({', '.join(times)})" if times else ""

    def _came_to(self, known: CellState) -> str:
        took = "" if known.seconds is None else f" after {known.seconds:.0f} s"
        why = f": {known.reasons[0]}" if known.reasons and known.exit_code else ""
        if known.verdict is None and why:
            first = self._told.setdefault(why, known.name)
            why = why if first == known.name else f", as {first}"
        return f"{known.verdict or 'could not be started'}{took}{why}"

    def _run(self, cell: Cell) -> None:
        out, started_s = self.state.folder / RUNNING / cell.name, self.clock()
        failure: BaseException | None = None
        try:
            self.run_cell(cell, out)
        except (R2ccError, OSError, KeyboardInterrupt) as error:
            failure = error
        self._settle(cell, out, self.clock() - started_s, failure)

    def _settle(self, cell: Cell, out: Path, seconds: float, failure: BaseException | None) -> None:
        """A run that came to an end counts by its summary, even if something went wrong afterwards (a report)."""
        summary = _summary_in(out)
        code = summary.get("exit_code")
        if code in (0, 1):
            self._done(cell, out, summary, seconds)
        elif code == INTERRUPTED or isinstance(failure, KeyboardInterrupt):
            self._keep(cell.name, out)
            raise KeyboardInterrupt
        else:
            self._failed(cell, out, summary, failure)
        if isinstance(failure, KeyboardInterrupt):
            raise failure
        if code in (0, 1) and failure is not None:
            self.tell(f"r2cc: warning: {failure}")

    def _done(self, cell: Cell, out: Path, summary: dict[str, Any], seconds: float) -> None:
        target = self.state.folder / CELLS / cell.name
        if target.exists():
            _move(target, _free(self.state.folder / OLD, cell.name))
        _move(_made(out)[-1], target)
        out.rmdir()
        self.state.change(
            cell.name, state=DONE, verdict=summary["verdict"], exit_code=summary["exit_code"],
            seconds=round(seconds, 1), directory=f"{CELLS}/{cell.name}", build_id=summary["build_id"],
            reasons=tuple(summary["reasons"]),
        )  # fmt: skip

    def _failed(self, cell: Cell, out: Path, summary: dict[str, Any], failure: BaseException | None) -> None:
        kept = self._keep(cell.name, out)
        reasons = list(summary.get("reasons", ())) or [str(failure or "no summary was written")]
        self.state.change(
            cell.name, state=FAILED, verdict=summary.get("verdict"), exit_code=3, reasons=tuple(reasons),
            attempts=self.state.cells[cell.name].attempts + bool(kept), seconds=None,
            directory=str(kept[-1].relative_to(self.state.folder)) if kept else None,
            build_id=summary.get("build_id"),
        )  # fmt: skip

    def _keep(self, name: str, out: Path) -> list[Path]:
        """Moves what was begun out of the way; it says why."""
        kept = [_move(made, _free(self.state.folder / FAILURES, name)) for made in _made(out)]
        if out.is_dir():
            out.rmdir()
        return kept

    def _keep_remains(self) -> None:
        """Of a call that was killed."""
        running = self.state.folder / RUNNING
        for out in sorted(running.iterdir()) if running.is_dir() else ():
            self._keep(out.name, out)


def left(state: State, names: Collection[str]) -> list[str]:
    """The cells that are not done."""
    return [cell.name for cell in state.cells.values() if cell.name in names and cell.state != DONE]


def exit_code(state: State, names: Collection[str]) -> int:
    """1 when a cell did not as expected, else 3 when one failed, else 0, also when there are cells left to run."""
    cells = [cell for cell in state.cells.values() if cell.name in names]
    if any(cell.verdict == DEVIATED for cell in cells if cell.state == DONE):
        return 1
    return 3 if any(cell.state == FAILED for cell in cells) else 0


def _made(out: Path) -> list[Path]:
    return sorted(path for path in out.iterdir() if path.is_dir()) if out.is_dir() else []


def _summary_in(out: Path) -> dict[str, Any]:
    for made in reversed(_made(out)):
        try:
            return jsons.mapping_of(made / "summary.json", schema=1)
        except Unreadable:
            continue
    return {}


def _free(folder: Path, name: str) -> Path:
    """The first of name-1, name-2, ... that is not there."""
    number = 1
    while (folder / f"{name}-{number}").exists():
        number += 1
    return folder / f"{name}-{number}"


def _move(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    return source.rename(target)
