"""The planner (r2cc_patches/planner) as NCCL and the bench have it: the same library, through text_library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness.schedules import text_library

Schedule = Literal["auto", "ring", "balance", "published", "chain", "chain_fixed", "optcc"]
Kind = Literal["ring", "chain", "optcc", "published"]
LIBRARY = "libr2cc_plan.so"
SCHEMA = 1
COSTS = (
    "hop_us",
    "local_hop_us",
    "chunk_bytes",
    "ring_efficiency",
    "chain_efficiency",
    "staged_efficiency",
    "margin",
    "even_rails",
)


@dataclass(frozen=True)
class Nic:
    """`capacity` is the share of `rate_gbit` that is left: 0 for a NIC that is gone."""

    name: str
    rate_gbit: float
    capacity: float = 1.0


@dataclass(frozen=True)
class Node:
    name: str
    ranks: tuple[int, ...]
    nics: tuple[Nic, ...]


@dataclass(frozen=True)
class Request:
    """Field by field what harness/schemas/plan_request.schema.json says. `channels` 0: as many parts as it likes.

    `cost` has the parameters that differ from the planner's defaults (docs/internals/schedules.md).
    """

    nodes: tuple[Node, ...]
    bytes: int
    op: str = "allreduce"
    datatype: str = "float32"
    reduction: str = "sum"
    channels: int = 0
    schedule: Schedule = "auto"
    cost: Mapping[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self)}


@dataclass(frozen=True)
class Part:
    """A whole AllReduce of `share` of the message. `order` is of ranks; of a chain the head first.

    `spared`: the ranks of each node that a published part's partial ring does without, if more than the straggler."""

    kind: Kind
    share: float
    order: tuple[int, ...]
    straggler: int | None = None
    mirrored: bool = False
    y: float = 0.0
    pieces: int = 0
    spared: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class NodePlan:
    name: str
    rate_gbit: float
    tx_bytes: float
    rx_bytes: float


@dataclass(frozen=True)
class Candidate:
    """`predicted_us` None: cannot run here, `note` says why."""

    schedule: Schedule
    predicted_us: float | None
    note: str


@dataclass(frozen=True)
class Plan:
    """`threshold_bytes`: from this size up the special schedule pays; None: at no size."""

    schedule: Schedule
    op: str
    bytes: int
    parts: tuple[Part, ...]
    predicted_us: float
    bound_us: float
    healthy_us: float
    threshold_bytes: int | None
    nodes: tuple[NodePlan, ...]
    candidates: tuple[Candidate, ...]
    why: str

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Plan:
        known = {key: item for key, item in value.items() if key != "schema"}
        parts = tuple(_part(part) for part in value["parts"])
        nodes = tuple(NodePlan(**node) for node in value["nodes"])
        candidates = tuple(Candidate(**candidate) for candidate in value["candidates"])
        return cls(**{**known, "parts": parts, "nodes": nodes, "candidates": candidates})


def _part(value: Mapping[str, Any]) -> Part:
    spared = tuple(tuple(ranks) for ranks in value.get("spared", ()))
    return Part(**{**value, "order": tuple(value["order"]), "spared": spared})


def plan(request: Request, library: Path | None = None) -> Plan:
    """What would run. Raises UsageError, naming every problem, for a request that cannot be planned."""
    return Plan.from_dict(json.loads(plan_json(json.dumps(request.as_dict()), library)))


def plan_json(request: str, library: Path | None = None) -> str:
    """The same with both as JSON text. Raises UsageError; BuildError when the library has not been built."""
    return text_library.ask("r2cc_plan", request, library or built_library(), "planner")


def built_library() -> Path:
    """Where `r2cc build net` leaves it."""
    return text_library.built(LIBRARY)
