"""The lines of a journal, by their event."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from harness.schemas.form import Amount, Count, Limits, Mode, Share, Some, form, growing

Word = Annotated[str, Limits(minLength=1)]


@growing
class Line(TypedDict):
    """What every line has."""

    schema: Literal[1]
    t_ns: Count
    """CLOCK_MONOTONIC of the host that observed it"""
    host: Word
    arm: Word
    """"-" for lines outside of every arm"""
    run: Count
    event: Word
    rank: NotRequired[Count]


@growing
class NicFacts(TypedDict):
    address: NotRequired[str]
    device: NotRequired[str]
    rate_gbit: NotRequired[Annotated[float, Limits(exclusiveMinimum=0)]]


class RunStart(TypedDict):
    mode: Mode
    wall_ns: int
    nics: NotRequired[dict[str, dict[str, NicFacts]]]
    """host -> NIC -> what is known of it"""
    one_subnet: NotRequired[bool]
    """all NICs see each other: there are no rails"""


class RunEnd(TypedDict):
    exit_codes: dict[str, int | None]
    outcome: Literal["finished", "failed", "interrupted"]
    reason: NotRequired[str | None]


class Command(TypedDict):
    argv: Some[str]
    exit_code: int | None
    """null: started, still running"""
    started_ns: NotRequired[int]
    stderr: NotRequired[str]


class Fault(TypedDict):
    id: str
    kind: str
    nic: str
    phase: Literal["armed", "injected", "active", "reverted", "verified", "missed"]
    cycle: NotRequired[Count]
    """of a flap: which down and up"""
    before_ns: NotRequired[int]
    """before the command was started"""
    after_ns: NotRequired[int]
    """after it had returned"""


class Probe(TypedDict):
    id: str
    holds: bool


class Message(TypedDict):
    message: str


class Verdict(TypedDict):
    verdict: Literal["holds", "deviated", "failed", "void"]


@growing
class Connection(TypedDict):
    id: Any
    peer: int
    direction: Literal["send", "recv"]
    channel: int
    nic: str


class BenchStart(TypedDict):
    rank: Count
    op: Any
    bytes: int
    ranks: int
    channels: int
    chunk_bytes: Count
    """0: NCCL's own choice; so are channels and slots"""
    slots: int
    mode: Any
    nics: Any
    connections: list[Connection]


class Schedule(TypedDict):
    rank: Count
    index: int
    """of the first iteration that it runs"""
    epoch: Count
    schedule: str
    parts: Annotated[int, Limits(minimum=1)]
    capacities: str
    why: str
    connections: Count
    """ends of them that were made for it"""
    chose_us: Count
    connect_us: Count


class Progress(TypedDict):
    rank: Count
    index: int
    start_ns: int


class Iteration(Progress):
    end_ns: int
    bytes: int
    wrong_elements: Count


class RequestFailed(Progress):
    message: str


class Delivery(Progress):
    connection: Any
    gaps_us: list[Amount]
    part: NotRequired[Count]


class BenchEnd(TypedDict):
    rank: Count
    completed: int
    wrong_elements: int
    max_rss_bytes: int
    cpu_s: float


@growing
class Counters(TypedDict):
    tx_bytes: int
    rx_bytes: int


class Sample(TypedDict):
    nics: dict[str, Counters]


class Link(TypedDict):
    nic: str
    up: bool


class Cpu(TypedDict):
    busy: Share
    stolen: NotRequired[Share]


class Gpu(TypedDict):
    gpu: Count
    """by NVML's order"""
    busy: Share
    """of the time since the last line in which a kernel ran, also one that waited for data"""
    memory_busy: Share
    """of the same time, in which its memory was read or written"""
    sm: NotRequired[Share]
    """of its multiprocessors, at work"""
    used_bytes: Count
    sm_mhz: Count
    memory_mhz: Count
    nvlink_tx_bytes: NotRequired[Count]
    """a counter over all links, as the next three"""
    nvlink_rx_bytes: NotRequired[Count]
    pcie_tx_bytes: NotRequired[Count]
    pcie_rx_bytes: NotRequired[Count]


class Path(TypedDict):
    connection: Any
    direction: NotRequired[Literal["send", "recv"]]
    nic: str
    peer_nic: NotRequired[str | int]
    """its name, or its place among the peer's NICs"""
    state: Literal["active", "frozen", "exchanging", "connecting", "holding", "failed", "closed"]
    epoch: NotRequired[int]
    cause: NotRequired[str]
    replayed: NotRequired[int]
    shares: NotRequired[str]
    """where several NICs carry it, each with its weight: eth0:25,eth2:6"""


class Nic(TypedDict):
    nic: str
    state: Literal["up", "down", "suspect", "probation", "degraded", "located"]
    cause: NotRequired[str]
    capacity_percent: NotRequired[Annotated[int, Limits(minimum=0, maximum=100)]]
    where: NotRequired[Literal["local_nic", "remote_nic", "link", "unknown"]]


class Side(TypedDict):
    nic: str
    way: Literal["udp", "tcp"]


class NetEnd(TypedDict):
    failovers: Any
    failbacks: Any


class Communicator(TypedDict):
    rank: Count
    comm: Annotated[str, Limits(pattern=r"^[0-9a-f]{16}$")]
    """NCCL's own number of it: the same on all its ranks"""
    comm_rank: Count


class CommBegins(Communicator):
    name: str
    comm_ranks: Count
    """0: this NCCL does not say; so are nodes"""
    nodes: Count
    pid: Count


class Traffic(Communicator):
    """Totals since the communicator began; times since the last line."""

    collectives: Count
    ended: Count
    bytes: Count
    """sent and received over the network"""
    launched_bytes: Count
    still_us: Count
    stall_us: Count
    stall_began_ns: Count
    net_stall_us: Count
    net_stall_began_ns: Count


EVENTS: dict[str, Any] = {
    **{"run_start": RunStart, "run_end": RunEnd, "command": Command, "fault": Fault, "probe": Probe, "log": Message},
    **{"verdict": Verdict, "bench_start": BenchStart, "schedule": Schedule, "progress": Progress},
    **{"iteration": Iteration, "delivery": Delivery, "bench_end": BenchEnd, "error": Message, "sample": Sample},
    **{"link": Link, "cpu": Cpu, "gpu": Gpu, "path": Path, "nic": Nic, "side": Side, "net_end": NetEnd},
    **{"request_failed": RequestFailed},
    **{"comm": CommBegins, "traffic": Traffic, "comm_end": Communicator},
}


@form("journal")
def json_schema() -> dict[str, Any]:
    """A line of an event that is not known has what all lines have, and anything else."""
    from harness.schemas.made import schema_of

    whole = schema_of("journal", "One line of journal.jsonl", [Line])
    rules: list[dict[str, Any]] = []
    parts: dict[str, Any] = {}
    for event, model in EVENTS.items():
        own = schema_of(event, event, [model])
        parts |= own.get("$defs", {})
        then = {key: own[key] for key in ("required", "properties")}
        rules.append({"if": {"properties": {"event": {"const": event}}}, "then": then})
    return {**whole, "allOf": rules, "$defs": parts}
