"""The JSON of this folder: what its commands print, and what it writes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from chaos.simulate.cluster.topology import Topology
from chaos.simulate.run.experiment import json_schema
from harness.schemas.forms import OPEN, Amount, Count, Forms, Share, Some


@with_config(OPEN)
class Workload(TypedDict):
    kind: Any


class Param(TypedDict):
    name: str
    value: Any
    unit: str
    basis: Literal["measured", "published", "assumed"]
    source: Annotated[str, Field(min_length=1)]


class Figure(TypedDict):
    name: str
    unit: str
    value: float | None
    """The mean over traces; null: no trace has it."""
    low: float | None
    """5th percentile over traces."""
    high: float | None
    """95th percentile over traces."""
    p50: float | None
    p99: float | None
    error: float | None
    """Half of the mean's 95 % interval."""
    n: Count
    """Traces that have it."""
    basis: Literal["modelled", "measured"]


class Point(TypedDict):
    at: dict[str, Any]
    gpus: Annotated[int, Field(ge=1)]
    """Of the whole cluster there."""
    arm: str
    """An arm, or two as `one/other` for a ratio of theirs."""
    figures: list[Figure]


class Distribution(TypedDict):
    at: dict[str, Any]
    arm: str
    name: str
    unit: str
    quantiles: list[tuple[Share, float]]
    """(share, value), rising."""


class Reference(TypedDict):
    at: dict[str, Any]
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


class Check(TypedDict):
    name: str
    value: float | None
    bound: str
    outcome: Literal["holds", "deviated"]


class Covered(TypedDict):
    outcome: Literal["survived", "degraded", "restart"] | None
    survived: Share | None
    degraded: Share | None
    restart: Share | None


class Coverage(TypedDict):
    kind: str
    rate_per_month: Amount
    share: Share | None
    arms: dict[str, Covered]


class Simulation(TypedDict):
    schema: Literal[1]
    name: str
    title: str
    seed: Count
    code: str
    """Names the code and libraries that computed it."""
    basis: Literal["modelled"]
    verdict: Literal["holds", "deviated"]
    exit_code: Literal[0, 1]
    topology: dict[str, Any]
    workload: Workload
    faults: dict[str, Any]
    arms: list[str]
    axes: dict[str, list[Any]]
    draw: list[str]
    params: list[Param]
    points: list[Point]
    distributions: list[Distribution]
    references: list[Reference]
    checks: list[Check]
    coverage: list[Coverage]
    streams: dict[str, int]


class PlannedPoint(TypedDict):
    at: dict[str, Any]
    """the axes' values"""
    topology: dict[str, Any]
    workload: dict[str, Any]


class SimPlan(TypedDict):
    schema: Literal[1]
    name: str
    arms: Some[str]
    seed: Count
    points: list[PlannedPoint]
    cells: Count
    traces: Count


class SimBegun(TypedDict):
    schema: Literal[1]
    code: Annotated[str, Field(min_length=1)]


@with_config(OPEN)
class ArmFigures(TypedDict):
    figures: dict[str, list[Any]]


class SimCell(TypedDict):
    schema: Literal[1]
    cell: Annotated[str, Field(pattern=r"^p\d{4,}-t\d{6,}$")]
    point: str
    """a hash of the point"""
    traces: Some[Count]
    seeds: list[Count]
    faults: list[Count]
    """how many, of each trace"""
    arms: Annotated[dict[str, ArmFigures], Field(min_length=1)]


class SimFaults(TypedDict):
    schema: Literal[1]
    file: str
    seed: Count
    days: Annotated[float, Field(gt=0)]
    faults: Count


class Validated(TypedDict):
    name: str
    ours: float
    expected: float
    tolerance: float
    bound: str
    """what is asked for, in words"""
    source: str
    """where the expected value comes from"""
    outcome: Literal["holds", "known", "deviated"]
    """known: it misses, and why is in the note"""
    note: str
    value: float
    """what is held against the bound"""


class SimValidate(TypedDict):
    schema: Literal[1]
    outcome: Literal["holds", "deviated"]
    checks: list[Validated]


class TraceHead(TypedDict):
    schema: Literal[1]
    seed: Count
    index: Count
    """which of several traces of the seed"""
    days: Annotated[float, Field(gt=0)]
    topology: str
    """its name"""
    streams: dict[str, int]
    """the seed of every process"""
    faults: Count
    """how many lines follow"""


PLACES = {"nic": (2, 2), "port": (3, 3), "tor": (1, 1), "spine": (1, 2), "host": (1, 1)}
"""How many numbers say where it is, at least and at most."""


@with_config(
    extra="forbid",
    use_attribute_docstrings=True,
    json_schema_extra={
        "allOf": [
            {
                "if": {"properties": {"what": {"const": what}}},
                "then": {"properties": {"where": {"minItems": least, "maxItems": most}}},
            }
            for what, (least, most) in PLACES.items()
        ]
    },
)
class TraceFault(TypedDict):
    t_s: Amount
    duration_s: Annotated[float, Field(gt=0)]
    kind: Literal["cut", "flap", "degraded"]
    what: Literal["nic", "port", "tor", "spine", "host"]
    where: Annotated[list[Count], Field(min_length=1, max_length=3)]
    """[host, nic], [host, nic, port], [tor], [spine] or [spine, tor] (that ToR's uplink), [host]"""
    factor: NotRequired[Annotated[float, Field(ge=0, lt=1)]]
    """what is left"""
    process: NotRequired[str]
    """what made it"""
    silent: NotRequired[bool]
    """nobody is told, as with a black hole"""


SCHEMAS: Forms = {
    "sim_topology": ("The topology of a simulation", Topology),
    "sim_experiment": json_schema,
    "sim_trace": ("A line of a trace of faults: the first is a head, every other a fault", TraceHead | TraceFault),
    "simulation": ("What a simulation came to: simulation.json of a run directory", Simulation),
    "sim_plan": ("r2cc sim run --dry-run and r2cc sim sweep --dry-run: what there is to do", SimPlan),
    "sim_begun": ("sweep.json: which simulator began a simulation's run directory", SimBegun),
    "sim_cell": ("A file of cells/: one point of a simulation with one block of traces", SimCell),
    "sim_faults": ("r2cc sim faults: the trace that was written", SimFaults),
    "sim_validate": ("r2cc sim validate", SimValidate),
}
