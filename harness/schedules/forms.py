"""The JSON of this folder: what its commands print, and what it writes."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from harness.schemas.forms import Amount, Count, Forms, Share, Some

DataType = Literal[
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16", "float8e4m3",
    "float8e5m2",
]  # fmt: skip
Schedule = Literal["ring", "balance", "published", "chain", "chain_fixed", "optcc"]
Ranks = Annotated[list[Count], Field(min_length=1, json_schema_extra={"uniqueItems": True})]


class Part(TypedDict):
    kind: Literal["ring", "chain", "optcc", "published"]
    share: Annotated[float, Field(gt=0, le=1.000001)]
    order: Ranks
    straggler: NotRequired[Count]
    mirrored: NotRequired[bool]
    y: NotRequired[Share]
    pieces: NotRequired[Annotated[int, Field(ge=1)]]
    cycle: NotRequired[Count]
    homes: NotRequired[Ranks]
    spared: NotRequired[Some[Ranks]]


class Node(TypedDict):
    name: str
    rate_gbit: Amount
    tx_bytes: Amount
    rx_bytes: Amount


class Candidate(TypedDict):
    schedule: Schedule
    predicted_us: Amount | None
    note: str


class Plan(TypedDict):
    schema: Literal[1]
    op: str
    bytes: Count
    schedule: Schedule
    parts: Some[Part]
    predicted_us: Amount
    bound_us: Amount
    healthy_us: Amount
    threshold_bytes: Count | None
    nodes: list[Node]
    candidates: list[Candidate]
    why: Annotated[str, Field(min_length=1)]


class Nic(TypedDict):
    name: str
    rate_gbit: Annotated[float, Field(ge=0, le=1000000)]
    capacity: NotRequired[Share]
    """what is left of it; default 1"""


class AskedNode(TypedDict):
    name: Annotated[str, Field(min_length=1)]
    ranks: Ranks
    nics: Annotated[list[Nic], Field(max_length=64)]


class Cost(TypedDict):
    hop_us: NotRequired[Annotated[float, Field(ge=0, le=1000000000)]]
    local_hop_us: NotRequired[Annotated[float, Field(ge=0, le=1000000000)]]
    chunk_bytes: NotRequired[Annotated[int, Field(ge=1, le=1099511627776)]]
    ring_efficiency: NotRequired[Annotated[float, Field(ge=0.01, le=1)]]
    chain_efficiency: NotRequired[Annotated[float, Field(ge=0.01, le=1)]]
    staged_efficiency: NotRequired[Annotated[float, Field(ge=0.01, le=1)]]
    margin: NotRequired[Share]
    even_rails: NotRequired[Literal[0, 1]]


class PlanRequest(TypedDict):
    schema: Literal[1]
    nodes: Annotated[list[AskedNode], Field(min_length=1, max_length=16384)]
    op: NotRequired[Literal["allreduce", "allgather", "reducescatter", "broadcast", "reduce", "sendrecv", "alltoall"]]
    bytes: Annotated[int, Field(ge=0, le=4611686018427387904)]
    datatype: NotRequired[DataType]
    reduction: NotRequired[str]
    """sum, prod, min, max and avg have special schedules"""
    channels: NotRequired[Annotated[int, Field(ge=0, le=1024)]]
    """most parts; 0: any number"""
    cycles: NotRequired[list[Annotated[list[Count], Field(json_schema_extra={"uniqueItems": True})]]]
    """orders of all ranks, nodes whole: chains are cuts of them"""
    homes: NotRequired[list[Count]]
    """of the channels that a chain can lie on: places in the nodes' lists of NICs"""
    schedule: NotRequired[Literal["auto", "ring", "balance", "published", "chain", "chain_fixed", "optcc"]]
    cost: NotRequired[Cost]


SCHEMAS: Forms = {
    "plan": ("The planner's answer", Plan),
    "plan_request": ("What the planner is asked", PlanRequest),
}
