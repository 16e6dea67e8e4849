"""The planner (r2cc_patches/planner) as NCCL and the bench have it: the same library, through text_library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typing_extensions import TypedDict

from harness.schedules import text_library
from harness.schemas import text_of, whole
from harness.schemas.form import Amount, Count, Limits, Share, Some, form, left_out

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Schedule = Literal["auto", "ring", "balance", "published", "chain", "chain_fixed", "optcc", "tree", "reranked"]
Runs = Literal[
    "auto", "ring", "balance", "published", "chain", "chain_fixed", "optcc", "tree", "reranked", "direct"
]  # fmt: skip
"""`direct`: an operation that is no ring, on balanced paths. Nobody asks for it."""
Kind = Literal["ring", "chain", "optcc", "published", "tree", "direct"]
LIBRARY = "libr2cc_plan.so"
DataType = Literal[
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16", "float8e4m3",
    "float8e5m2",
]  # fmt: skip
Op = Literal["allreduce", "allgather", "reducescatter", "broadcast", "reduce", "sendrecv", "alltoall"]
Ranks = Annotated[tuple[Count, ...], Limits(minItems=1, uniqueItems=True)]


@dataclass(frozen=True)
class Nic:
    """`capacity` is the share of `rate_gbit` that is left: 0 for a NIC that is gone."""

    name: str
    rate_gbit: Annotated[float, Limits(minimum=0, maximum=1000000)]
    capacity: Share = 1.0


@dataclass(frozen=True)
class Node:
    name: Annotated[str, Limits(minLength=1)]
    ranks: Ranks
    nics: Annotated[tuple[Nic, ...], Limits(maxItems=64)]


Ratio = Annotated[float, Limits(minimum=0.01, maximum=1)]
Microseconds = Annotated[float, Limits(minimum=0, maximum=1000000000)]


class Cost(TypedDict, total=False):
    """Parameters of the planner's model that differ from its defaults (docs/internals/schedules.md)."""

    hop_us: Microseconds
    local_hop_us: Microseconds
    chunk_bytes: Annotated[int, Limits(minimum=1, maximum=1099511627776)]
    ring_efficiency: Ratio
    chain_efficiency: Ratio
    staged_efficiency: Ratio
    margin: Share
    even_rails: Literal[0, 1]
    base_us: Microseconds
    most_chunk_bytes: Annotated[int, Limits(minimum=0, maximum=1099511627776)]
    channel_GBps: Annotated[float, Limits(minimum=0, maximum=1000000)]
    local_GBps: Annotated[float, Limits(minimum=0, maximum=1000000)]
    rank_GBps: Annotated[float, Limits(minimum=0, maximum=1000000)]
    rank_chunk_us: Microseconds


COSTS = tuple(Cost.__annotations__)
Gpu = Literal["volta", "ampere", "hopper", "blackwell"]


@dataclass(frozen=True)
class AlgorithmCost:
    """What one of NCCL's algorithms was measured to take, of protocol Simple; what is left out is as NCCL's table has
    it. Hops of the other protocols are longer or shorter in the same proportion."""

    base_us: Microseconds | None = left_out()
    """once a collective"""
    hop_us: Microseconds | None = left_out()
    """between nodes"""
    local_hop_us: Microseconds | None = left_out()
    """inside a node"""
    efficiency: Annotated[float, Limits(minimum=0.01, maximum=2)] | None = left_out()
    """share of the bandwidth that the table has"""


@dataclass(frozen=True)
class NcclMachine:
    """What NCCL runs on, for its table of costs. `local_GBps`: between the GPUs of a node, of all channels.

    NCCL chooses by its table, whatever `ring`, `tree` and `nvls_tree` say of the time that this takes."""

    gpu: Gpu = "hopper"
    nvlink: Literal[0, 1] = 1
    nvls: Literal[0, 1] = 1
    channels: Annotated[int, Limits(minimum=0, maximum=64)] = 0
    """0: as many as a node has NICs, two at least"""
    local_GBps: Annotated[float, Limits(minimum=0, maximum=1000000)] = 360.0
    ring: AlgorithmCost | None = left_out()
    tree: AlgorithmCost | None = left_out()
    nvls_tree: AlgorithmCost | None = left_out()


@form("plan_request", "What the planner is asked", read=True)
@dataclass(frozen=True)
class Request:
    """`channels` 0: as many parts as it likes."""

    nodes: Annotated[tuple[Node, ...], Limits(minItems=1, maxItems=16384)]
    bytes: Annotated[int, Limits(minimum=0, maximum=4611686018427387904)]
    op: Op = "allreduce"
    datatype: DataType = "float32"
    reduction: str = "sum"
    """sum, prod, min, max and avg have special schedules"""
    channels: Annotated[int, Limits(minimum=0, maximum=1024)] = 0
    """most parts; 0: any number"""
    schedule: Schedule = "auto"
    cost: Cost = field(default_factory=Cost)
    cycles: Sequence[Annotated[tuple[Count, ...], Limits(uniqueItems=True)]] | None = left_out()
    """orders of all ranks, nodes whole: chains are cuts of them"""
    rewired: bool | None = left_out()
    """the channels of cycles can be connected otherwise, too: trees can lie on them"""
    homes: Sequence[Count] | None = left_out()
    """of the channels that a chain can lie on: places in the nodes' lists of NICs"""
    planes: Annotated[int, Limits(minimum=0, maximum=64)] = 0
    """NIC i is in plane i modulo this, and reaches that plane alone: 1 with a spine; 0: every rail by itself"""
    nccl: NcclMachine | None = left_out()
    """what runs otherwise is what NCCL's table of costs has as the fastest here, and costs are NCCL's; of three nodes
    and more"""


@dataclass(frozen=True)
class Part:
    """A whole AllReduce of `share` of the message. `order` is of ranks; of a chain the head first, of a tree the root.
    `direct`: each rank sends to those it has something for.

    `parents`: of a tree, the place of each rank's parent in `order`, which is before its own; of the root -1.

    `spared`: the ranks of each node that a published part's partial ring does without, if more than the straggler."""

    kind: Kind
    share: Annotated[float, Limits(exclusiveMinimum=0, maximum=1.000001)]
    order: Ranks
    straggler: Count | None = left_out()
    mirrored: bool = False
    y: Share = 0.0
    pieces: Count = 0
    cycle: Count | None = left_out()
    homes: Ranks | None = left_out()
    parents: tuple[Annotated[int, Limits(minimum=-1)], ...] | None = left_out()
    spared: tuple[Ranks, ...] = ()


@dataclass(frozen=True)
class NodePlan:
    name: str
    rate_gbit: Amount
    tx_bytes: Amount
    rx_bytes: Amount


@dataclass(frozen=True)
class Candidate:
    """`predicted_us` None: cannot run here, `note` says why."""

    schedule: Runs
    predicted_us: Amount | None
    note: str


@dataclass(frozen=True)
class Baseline:
    """A way in which NCCL could run it, with every NIC whole and on balanced paths.

    `beaten_from_bytes`: from this size up the special schedule is faster; None: at no size."""

    name: str
    healthy_us: Amount
    balanced_us: Amount
    beaten_from_bytes: Count | None


@form("plan", "The planner's answer", read=True)
@dataclass(frozen=True)
class Plan:
    """`threshold_bytes`: from this size up the special schedule pays; None: at no size."""

    op: str
    bytes: Count
    schedule: Runs
    parts: Some[Part]
    predicted_us: Amount
    bound_us: Amount
    healthy_us: Amount
    threshold_bytes: Count | None
    nodes: tuple[NodePlan, ...]
    candidates: tuple[Candidate, ...]
    why: Annotated[str, Limits(minLength=1)]
    baselines: Some[Baseline] | None = left_out()
    """of a request with `nccl`"""
    in_turn: bool | None = left_out()
    """where the home of one of its channels is gone: that goes over one of the NICs that are left, in turn"""
    nccl_runs: str | None = left_out()
    """which of them NCCL would choose at this size: `predicted_us` is its time where no other schedule pays"""

    @staticmethod
    def of(text: str) -> Plan:
        """What the planner answered."""
        return _reader().validate_json(text)


@cache
def _reader() -> TypeAdapter[Plan]:
    from pydantic import TypeAdapter

    return TypeAdapter(Plan)


def plan(request: Request, library: Path | None = None) -> Plan:
    """What would run. Raises UsageError, naming every problem, for a request that cannot be planned."""
    return Plan.of(plan_json(text_of(whole(request)), library))


def plan_json(request: str, library: Path | None = None) -> str:
    """The same with both as JSON text. Raises UsageError; BuildError when the library has not been built."""
    return text_library.ask("r2cc_plan", request, library or built_library(), "planner")


def built_library() -> Path:
    """Where `r2cc build net` leaves it."""
    return text_library.built(LIBRARY)
