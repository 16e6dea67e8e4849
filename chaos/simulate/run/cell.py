"""Runs one cell: every trace of its block, every arm of each. The same answer wherever and whenever it runs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from chaos.simulate.run.experiment import Experiment, Point, digest_of
from chaos.simulate.workloads import cells, kinds, scenario
from chaos.simulate.workloads.cells import Cell
from chaos.simulate.workloads.scenario import Result
from chaos.simulate.workloads.sections import Faults
from harness.errors import InfraError
from harness.schemas.form import Count, Limits, form, growing, left_out

Json = dict[str, Any]
COMPUTES = (
    "cluster", "core", "faults", "jobs", "parameters", "serving", "training", "workloads", "params.py", "run/cell.py",
    "run/experiment.py",
)  # fmt: skip
"""Folders and files of this package that a cell's figures come from. What prints, keeps, imports or checks them is no
part: a new option must not make finished cells worthless. A test follows the imports."""
COSTS = ("text_library.py", "planner.py", "costs/model.py", "costs/profiles")
"""The same of what asks the planner, and of what hops and bytes cost."""
LIBRARIES = ("libr2cc_sim.so", "libr2cc_plan.so")


@growing
@dataclass(frozen=True)
class ArmFigures:
    """One arm's figures, a value a trace."""

    figures: Mapping[str, Sequence[float | None]]
    tallies: Mapping[str, Any] | None = left_out()


@form("sim_cell", "A file of cells/: one point of a simulation with one block of traces")
@dataclass(frozen=True)
class CellResult:
    """What a cell came to."""

    cell: Annotated[str, Limits(pattern=r"^p\d{4,}-t\d{6,}$")]
    point: str
    """a hash of the point"""
    traces: Annotated[Sequence[Count], Limits(minItems=1)]
    seeds: Sequence[Count]
    faults: Sequence[Count]
    """how many, of each trace"""
    arms: Annotated[Mapping[str, ArmFigures], Limits(minProperties=1)]

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> CellResult:
        """From its file."""
        arms = {arm: ArmFigures(found["figures"], found.get("tallies")) for arm, found in value["arms"].items()}
        known = {name: value[name] for name in ("cell", "point", "traces", "seeds", "faults")}
        return cls(**known, arms=arms)


@dataclass(frozen=True)
class Payload:
    """What a process or machine is sent once: all that cells need, as plain values."""

    seed: int
    arms: tuple[str, ...]
    points: tuple[Point, ...]
    trace: str | None
    code: str
    """Of the r2cc that sends it; who runs another one would answer something else."""

    @classmethod
    def of(cls, experiment: Experiment) -> Payload:
        return cls(experiment.seed, experiment.arms, experiment.points, experiment.trace, code_id())

    def cells(self) -> list[Cell]:
        """All cells, point by point."""
        return [cell for point in self.points for cell in cells.of_point(point.index, *_blocks(point))]


def _blocks(point: Point) -> tuple[int, int]:
    faults = Faults.model_validate(point.faults)
    return faults.traces, faults.block_size


def code_files() -> dict[str, Path]:
    """What computes a cell's figures, by path from the folder that the packages lie in."""
    root = Path(__file__).parents[3]
    parts = [*(f"chaos/simulate/{part}" for part in COMPUTES), *(f"harness/schedules/{part}" for part in COSTS)]
    found = [path for part in parts for path in (root / part, *(root / part).rglob("*"))]
    return {path.relative_to(root).as_posix(): path for path in found if path.suffix in (".py", ".yaml", ".json")}


@cache
def code_id() -> str:
    """Names what computes: the files of `code_files`, and the two libraries as they were built."""
    from harness.repo import programs

    found = hashlib.sha256()
    for name, path in sorted(code_files().items()):
        found.update(name.encode() + b"\0" + path.read_bytes())
    for name in LIBRARIES:
        library = programs().net / name
        found.update(library.read_bytes() if library.is_file() else b"none")
    return found.hexdigest()[:16]


def run_cell(payload: Payload, cell: Cell) -> CellResult:
    """The cell's figures, one value a trace, as written to cells/ID.json."""
    if payload.code != code_id():
        raise InfraError(
            f"this machine runs another r2cc ({code_id()}) than the one that asks ({payload.code})",
            "install the same r2cc at every worker, and build its libraries there: `r2cc build net`",
        )
    point = payload.points[cell.point]
    faults = Faults.model_validate(point.faults)
    work = scenario.work_of(kinds.section(point.workload), point.topology, point.params)
    module = kinds.kind(str(point.workload["kind"]))
    seeds, counts = [], []
    results: dict[str, list[Result]] = {arm: [] for arm in payload.arms}
    for number in cell.traces:
        made = scenario.scenario(faults, work, payload.seed, number, payload.trace)
        ready = module.ready(work, made)
        for arm in payload.arms:
            results[arm].append(module.run(work, arm, made, ready))
        seeds.append(made.trace.seed)
        counts.append(len(made.trace.faults))
    return CellResult(
        cell=cell.id,
        point=digest_of([point.topology, point.workload, point.faults, point.params]),
        traces=list(cell.traces),
        seeds=seeds,
        faults=counts,
        arms={arm: _together(found) for arm, found in results.items()},
    )


def _together(results: Sequence[Result]) -> ArmFigures:
    """One arm's figures, a list each, and its tallies added up."""
    names = list(dict.fromkeys(name for result in results for name in result.values))
    figures = {name: [result.values.get(name) for result in results] for name in names}
    return ArmFigures(figures, added(result.tallies for result in results if result.tallies) or None)


def added(tallies: Iterable[Mapping[str, Any]]) -> Json:
    """Nested counts, summed by name."""
    total: Json = {}
    for each in tallies:
        for name, value in each.items():
            if isinstance(value, Mapping):
                total[name] = added([total.get(name, {}), value])
            else:
                total[name] = total.get(name, 0) + value
    return total
