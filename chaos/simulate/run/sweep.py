"""A sweep's directory: what was asked for, every finished cell, and in the end the simulation made of them.

A cell is written whole or not at all, so a sweep that was killed goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from chaos.simulate.run.cell import CellResult, Payload
from chaos.simulate.run.execute import Executor
from chaos.simulate.run.experiment import TRACE, Experiment, Point
from chaos.simulate.workloads import cells as naming
from chaos.simulate.workloads import kinds, scenario
from chaos.simulate.workloads.cells import Cell
from chaos.simulate.workloads.sections import Faults
from harness.config import jsons
from harness.config.files import Unreadable, text_of
from harness.errors import R2ccError, UsageError
from harness.files import rundir
from harness.files.lock import exclusive
from harness.files.rundir import RunDir
from harness.files.writing import write_whole
from harness.schemas import dumped
from harness.schemas.form import Count, Limits, form

Json = dict[str, Any]
CELLS, TRACES, ASKED, RESULT, SWEEP = "cells", "traces", "experiment.yaml", "simulation.json", "sweep.json"
LOCKED_S = 1.0


@form("sim_faults", "r2cc sim faults: the trace that was written")
@dataclass(frozen=True)
class TraceWritten:
    """A file of faults."""

    file: str
    seed: Count
    days: Annotated[float, Limits(exclusiveMinimum=0)]
    faults: Count


@form("sim_begun", "sweep.json: which simulator began a simulation's run directory")
@dataclass(frozen=True)
class Begun:
    """By what code."""

    code: Annotated[str, Limits(minLength=1)]


@dataclass(frozen=True)
class Sweep:
    """One experiment in one directory."""

    experiment: Experiment
    folder: Path

    @property
    def run_dir(self) -> RunDir:
        return RunDir(self.folder)

    def prepare(self, *, resume: bool) -> None:
        """Makes the directory, or checks that it is this experiment's. UsageError when it is something else."""
        empty = not self.folder.is_dir() or all(path.name.startswith(".") for path in self.folder.iterdir())
        try:
            (self.folder / CELLS).mkdir(parents=True, exist_ok=True)
            asked = self.folder / ASKED
            if not asked.exists():
                self._ask()
                return
        except OSError as error:
            raise UsageError(f"cannot make {self.folder}: {error.strerror}", "give another --out") from error
        except R2ccError:
            if empty:
                self.run_dir.discard()
            raise
        self.check(resume=resume)

    def check(self, *, resume: bool, dry: bool = False) -> None:
        """Whether `prepare` would refuse; changes nothing. `dry`: not even for a moment."""
        asked = self.folder / ASKED
        if not asked.exists():
            rundir.check(self.folder, dry=dry)
        elif not resume:
            hint = "--resume goes on with it; another --out starts anew"
            raise UsageError(f"{self.folder} already holds a simulation", hint)
        else:
            self._check(asked)

    def _ask(self) -> None:
        """What was asked for, and with which r2cc; the file that says so last."""
        if self.experiment.trace is not None:
            self.run_dir.write_text(TRACE, self.experiment.trace)
        self.run_dir.write_json(SWEEP, Begun(Payload.of(self.experiment).code))
        self.run_dir.write_text(ASKED, self.experiment.dump())

    def _check(self, asked: Path) -> None:
        if text_of(asked) != self.experiment.dump():
            raise UsageError(f"{self.folder} holds another simulation than the one asked for", "give another --out")
        known = _json(self.folder / SWEEP)
        code = Payload.of(self.experiment).code
        if known.get("code") != code:
            why = f"was begun by another r2cc ({known.get('code')}) than this one ({code})"
            raise UsageError(f"{self.folder} {why}: its cells would not fit together", "give another --out")

    def finished(self, cell: Cell) -> CellResult | None:
        """The cell's result; None when it is not there, or is no such thing."""
        value = _json(self.folder / CELLS / f"{cell.id}.json")
        fits = value and naming.problems(value, cell, self.experiment.arms) is None
        return CellResult.of(value) if fits else None

    def run(self, executor: Executor, told: Callable[[str], None]) -> None:
        """Runs the cells that are not finished; `told` hears how far it is."""
        payload = Payload.of(self.experiment)
        every = payload.cells()
        left = [cell for cell in every if self.finished(cell) is None]
        if not left:
            return
        done, began_s = 0, time.monotonic()
        results = executor.run(payload, left)
        try:
            for cell, result in results:
                RunDir(self.folder / CELLS).write_text(f"{cell.id}.json", dumped(result) + "\n")
                done += 1
                told(_how_far(len(every), len(left), done, time.monotonic() - began_s))
        finally:
            close: Callable[[], None] = getattr(results, "close", lambda: None)
            close()

    def results(self) -> Iterator[tuple[Cell, CellResult]]:
        """All cells with their results, in their order. UsageError for one that is not finished."""
        for cell in Payload.of(self.experiment).cells():
            result = self.finished(cell)
            if result is None:
                raise UsageError(f"{self.folder}: cell {cell.id} is not finished", "go on with --resume")
            yield cell, result

    def progress(self) -> tuple[int, int]:
        """(cells that are finished, all of them)."""
        every = Payload.of(self.experiment).cells()
        return sum(self.finished(cell) is not None for cell in every), len(every)

    def write_traces(self) -> None:
        """Every point's traces, as files."""
        for point in self.experiment.points:
            for number in range(Faults.model_validate(point.faults).traces):
                file = self.folder / TRACES / f"p{point.index:04d}-t{number:06d}.jsonl"
                write_trace(self.experiment, point, number, file)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One process at a time works on a directory."""
        with exclusive(self.folder / ".lock", "running this simulation", timeout_s=LOCKED_S):
            yield


def write_trace(experiment: Experiment, point: Point, number: int, path: Path) -> Any:
    """Makes a trace again and writes it, with the errors of `write_whole`."""
    from chaos.simulate.faults import trace

    work = scenario.work_of(kinds.section(point.workload), point.topology, point.params)
    faults = Faults.model_validate(point.faults)
    made = scenario.trace_of(faults, work, naming.seed_of(experiment.seed, number), experiment.trace)
    write_whole(path, trace.text(made))
    return made


def _how_far(total: int, wanted: int, done: int, took_s: float) -> str:
    """Of `wanted` cells that were not finished before; at the rate so far."""
    before = f", {total - wanted} of them before" if total > wanted else ""
    return f"{total - wanted + done} of {total} cells{before}, about {took_s / done * (wanted - done):.0f} s left"


def _json(path: Path) -> Json:
    """{} for what is not there, or cannot be read."""
    try:
        return jsons.mapping_of(path, schema=1)
    except Unreadable:
        return {}
