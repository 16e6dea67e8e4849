"""simulation.json: what all cells of a simulation come to (harness/schemas/simulation.schema.json). Pure.

Nothing in it depends on when, where or by how many workers the cells were run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from typing_extensions import TypedDict

from chaos.simulate import params as parameters
from chaos.simulate.run import coverage
from chaos.simulate.run.cell import CellResult, added
from chaos.simulate.run.experiment import Experiment, Point, fits
from chaos.simulate.unmodelled import NOT_MODELLED
from chaos.simulate.workloads import cells as naming
from chaos.simulate.workloads import kinds
from chaos.simulate.workloads.cells import Cell
from chaos.simulate.workloads.figures import about
from chaos.simulate.workloads.sections import Expect, Faults, Reference
from harness.schemas.form import Count, Limits, Share, Some, form, growing, newer

Json = dict[str, Any]
Values = list[float | None]
Verdict = Literal["holds", "deviated"]
HOLDS: Final = "holds"
DEVIATED: Final = "deviated"
STREAMS_TOLD = 64
MET = 0.05
"""How near a published value is met."""
NOUGHT = 1e-6
"""Nothing is a multiple of what is smaller: it is what rounding leaves."""
LOW, HIGH = 5, 95
"""Percentiles over traces: nine of ten lie between."""


@dataclass(frozen=True)
class Figure:
    """Over all traces."""

    name: str
    unit: str
    value: float | None
    """The mean over traces; null: no trace has it."""
    low: float | None = None
    """5th percentile over traces."""
    high: float | None = None
    """95th percentile over traces."""
    p50: float | None = None
    p99: float | None = None
    error: float | None = None
    """Half of the mean's 95 % interval."""
    n: Count = 0
    """Traces that have it."""
    basis: Literal["modelled", "measured"] = "modelled"


@dataclass(frozen=True)
class PointFigures:
    at: Mapping[str, Any]
    gpus: Annotated[int, Limits(minimum=1)]
    """Of the whole cluster there."""
    arm: str
    """An arm, or two as `one/other` for a ratio of theirs."""
    figures: Sequence[Figure]

    def value(self, name: str) -> float | None:
        return next((each.value for each in self.figures if each.name == name), None)


@dataclass(frozen=True)
class Distribution:
    at: Mapping[str, Any]
    arm: str
    name: str
    unit: str
    quantiles: Sequence[tuple[Share, float]]
    """(share, value), rising."""


@dataclass(frozen=True)
class Compared:
    """A published figure beside ours."""

    at: Mapping[str, Any]
    arm: str
    name: str
    unit: str
    value: float
    relation: Literal["equals", "at_most", "at_least"]
    ours: float | None
    difference: float | None
    """ours / value - 1"""
    source: str
    note: str
    outcome: Literal["met", "missed"] | None = newer()
    """met: on the right side of a limit, or as near to a value as MET; whatever the file allows"""


@dataclass(frozen=True)
class Check:
    name: str
    value: float | None
    bound: str
    outcome: Verdict


@growing
class Workload(TypedDict):
    kind: Any


@form("simulation", "What a simulation came to: simulation.json of a run directory")
@dataclass(frozen=True)
class Simulation:
    """All of it."""

    name: str
    title: str
    seed: Count
    code: str
    """Names the code and libraries that computed it."""
    basis: Literal["modelled"]
    verdict: Verdict
    exit_code: Annotated[int, Limits(enum=[0, 1])]
    topology: Mapping[str, Any]
    workload: Workload
    faults: Mapping[str, Any]
    arms: Sequence[str]
    axes: Mapping[str, Sequence[Any]]
    draw: Sequence[str]
    params: Sequence[coverage.Param]
    points: Sequence[PointFigures]
    distributions: Sequence[Distribution]
    references: Sequence[Compared]
    checks: Sequence[Check]
    coverage: Sequence[coverage.Coverage]
    streams: Mapping[str, int]
    not_modelled: str | None = newer()
    """What no figure has in it."""


@dataclass(frozen=True)
class PlannedPoint:
    at: Mapping[str, Any]
    """the axes' values"""
    topology: Mapping[str, Any]
    workload: Mapping[str, Any]


@form("sim_plan", "r2cc sim run --dry-run and r2cc sim sweep --dry-run: what there is to do")
@dataclass(frozen=True)
class Plan:
    """What would be simulated."""

    name: str
    arms: Some[str]
    seed: Count
    points: Sequence[PlannedPoint]
    cells: Count
    traces: Count


@dataclass
class Arm:
    """One arm at one point: every figure's value in every trace, in the order of traces."""

    figures: dict[str, Values] = field(default_factory=dict)
    tallies: Json = field(default_factory=dict)


Gathered = dict[int, dict[str, Arm]]
"""By point and arm."""


def build(experiment: Experiment, results: Iterable[tuple[Cell, CellResult]], code: str) -> Simulation:
    """The whole of it, from the cells in their order."""
    gathered = gather(experiment, results)
    points = [
        PointFigures(dict(point.at), _gpus(point), arm, figures)
        for point in experiment.points
        for arm, figures in _figures(experiment, point, gathered[point.index])
    ]
    references = [_reference(each, points) for each in experiment.references]
    checks = [*_of_references(experiment.references, references), *_of_expect(experiment.expect, points)]
    verdict: Verdict = DEVIATED if any(check.outcome != HOLDS for check in checks) else HOLDS
    first = experiment.points[0]
    workload: Any = first.workload
    return Simulation(
        name=experiment.name,
        title=experiment.title,
        seed=experiment.seed,
        code=code,
        basis="modelled",
        verdict=verdict,
        exit_code=int(verdict != HOLDS),
        topology=first.topology,
        workload=workload,
        faults={key: value for key, value in first.faults.items() if value is not None},
        arms=experiment.arms,
        axes={name: list(dict.fromkeys(point.at[name] for point in experiment.points)) for name in first.at},
        draw=list(experiment.draw or kinds.kind(str(first.workload["kind"])).DRAWN),
        params=coverage.params(first.params, first.topology),
        points=points,
        distributions=[each for point in experiment.points for each in _shapes(point, gathered[point.index])],
        references=references,
        checks=checks,
        coverage=coverage.rows(first, {arm: found.tallies for arm, found in gathered[first.index].items()}),
        streams=streams(experiment),
        not_modelled=NOT_MODELLED,
    )


def _gpus(point: Point) -> int:
    return int(point.topology["hosts"]) * int(point.topology.get("gpus", 1))


def gather(experiment: Experiment, results: Iterable[tuple[Cell, CellResult]]) -> Gathered:
    """Cells put together by point and arm."""
    found: Gathered = {point.index: {arm: Arm() for arm in experiment.arms} for point in experiment.points}
    for cell, result in results:
        for name, of_arm in result.arms.items():
            arm = found[cell.point][name]
            for figure, values in of_arm.figures.items():
                arm.figures.setdefault(figure, []).extend(values)
            if of_arm.tallies:
                arm.tallies = added([arm.tallies, of_arm.tallies])
    return found


def streams(experiment: Experiment) -> dict[str, int]:
    """The seed of the whole, and those of the first traces; the others follow from it (workloads/cells.py)."""
    traces = max(Faults.model_validate(point.faults).traces for point in experiment.points)
    told = {f"trace {number}": naming.seed_of(experiment.seed, number) for number in range(min(traces, STREAMS_TOLD))}
    return {"experiment": experiment.seed, **told}


def _figures(experiment: Experiment, point: Point, arms: Mapping[str, Arm]) -> Iterator[tuple[str, list[Figure]]]:
    kind = str(point.workload["kind"])
    derive = getattr(kinds.kind(kind), "derive", None)
    if derive is not None:
        derive({arm: found.figures for arm, found in arms.items()}, parameters.load(dict(point.params)))
    for arm, found in arms.items():
        yield arm, [_figure(name, kind, values) for name, values in found.figures.items()]
    for ratio in experiment.ratios:
        yield f"{ratio.arm}/{ratio.over}", [_ratio(ratio.name, *_means(arms, ratio.figure, ratio.arm, ratio.over))]


def _figure(name: str, kind: str, values: Sequence[float | None]) -> Figure:
    """A figure over all traces. None where no trace has it."""
    import numpy

    known = [float(value) for value in values if value is not None and math.isfinite(value)]
    unit = about(name, kind).unit
    if not known:
        return Figure(name, unit, None)
    value = math.fsum(known) / len(known)
    if len(known) == 1:
        return Figure(name, unit, value, n=1)
    low, middle, high, late = numpy.percentile(known, [LOW, 50, HIGH, 99]).tolist()
    return Figure(name, unit, value, low, high, middle, late, _error(known, value), len(known))


def _error(known: Sequence[float], mean: float) -> float:
    """Half of the mean's 95 % interval (normal; traces are many or it says little anyway)."""
    spread = math.fsum((value - mean) ** 2 for value in known) / (len(known) - 1)
    return 1.96 * math.sqrt(spread / len(known))


def _means(arms: Mapping[str, Arm], figure: str, *names: str) -> list[float | None]:
    return [_figure(figure, "", arms[name].figures.get(figure, [])).value for name in names]


def _ratio(name: str, value: float | None, over: float | None) -> Figure:
    """Of means: a mean of ratios would be led by the traces in which nearly nothing happened."""
    found = value / over if value is not None and over is not None and over > NOUGHT else None
    return Figure(name, "x", found, n=int(found is not None))


def _shapes(point: Point, arms: Mapping[str, Arm]) -> Iterator[Distribution]:
    """Whole distributions, where the kind of workload keeps them."""
    shape = getattr(kinds.kind(str(point.workload["kind"])), "distributions", None)
    for arm, found in arms.items():
        for each in shape(found.tallies) if shape is not None else ():
            yield Distribution(dict(point.at), arm, **each)


def values(
    points: Sequence[PointFigures], at: Mapping[str, Any], arm: str, figure: str
) -> list[tuple[PointFigures, float | None]]:
    """(point, its figure) wherever `at` fits."""
    return [(point, point.value(figure)) for point in points if point.arm == arm and fits(at, point.at)]


def _reference(reference: Reference, points: Sequence[PointFigures]) -> Compared:
    """Ours beside theirs; where several points are meant, the one that is furthest away."""
    found = [value for _, value in values(points, reference.at, reference.arm, reference.figure) if value is not None]
    ours = max(found, key=lambda value: _away(reference, value), default=None)
    difference = None if ours is None or not reference.value else ours / reference.value - 1
    return Compared(
        at=dict(reference.at),
        arm=reference.arm,
        name=reference.figure,
        unit=about(reference.figure).unit,
        value=reference.value,
        relation=reference.relation,
        ours=ours,
        difference=difference,
        source=reference.source,
        note=reference.note,
        outcome="met" if ours is not None and _met(reference, ours) else "missed",
    )


def _met(reference: Reference, ours: float) -> bool:
    return _away(reference, ours) <= (MET if reference.relation == "equals" else 0) + 1e-12


def _away(reference: Reference, ours: float) -> float:
    """How far ours is on the wrong side, as a share of theirs."""
    scale = abs(reference.value) or 1.0
    beyond = (ours - reference.value) / scale
    return {"equals": abs(beyond), "at_most": beyond, "at_least": -beyond}[reference.relation]


def _of_references(wanted: Sequence[Reference], found: Sequence[Compared]) -> Iterator[Check]:
    for reference, row in zip(wanted, found, strict=True):
        if reference.within is None:
            continue
        ours = row.ours
        good = ours is not None and _away(reference, ours) <= reference.within + 1e-12
        name = f"{reference.arm} {reference.figure}{_at(reference.at)}, published"
        bound = f"{_sign(reference)}{reference.value:g} within {reference.within:.3g}"
        yield Check(name, ours, bound, HOLDS if good else DEVIATED)


def _sign(reference: Reference) -> str:
    return {"equals": "", "at_most": "<= ", "at_least": ">= "}[reference.relation]


def _of_expect(wanted: Sequence[Expect], points: Sequence[PointFigures]) -> Iterator[Check]:
    for expect in wanted:
        limits = [f">= {expect.min:g}"] if expect.min is not None else []
        limits += [f"<= {expect.max:g}"] if expect.max is not None else []
        for point, value in values(points, expect.at, expect.arm, expect.figure):
            good = value is not None and _inside(value, expect)
            name = f"{expect.arm} {expect.figure}{_at(point.at)}"
            yield Check(name, value, " and ".join(limits), HOLDS if good else DEVIATED)


def _inside(value: float, expect: Expect) -> bool:
    return (expect.min is None or value >= expect.min) and (expect.max is None or value <= expect.max)


def _at(at: Mapping[str, Any]) -> str:
    return f" at {', '.join(f'{key}={value}' for key, value in at.items())}" if at else ""
