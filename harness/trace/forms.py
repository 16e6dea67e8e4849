"""The JSON of this folder: what its commands print, and what it writes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from harness.schemas.forms import OPEN, Amount, Count, Forms


@with_config(OPEN)
class Process(TypedDict):
    process: Any
    name: Any
    offset_ns: int
    host: Any
    pid: Any
    mode: Any
    build_id: Any
    nics: list[str]


@with_config(OPEN)
class Lane(TypedDict):
    lane: Any
    nic: Any


@with_config(OPEN)
class Connection(TypedDict):
    name: Any
    peer: Any
    home_nic: Any
    messages: Count
    bytes: Count
    recorded_ms: Amount
    missed_records: Count
    lanes: list[Lane]
    epochs: list[int]
    state: Any
    replayed: Any


@with_config(OPEN)
class Cause(TypedDict):
    t_ns: Any
    host: Any
    nic: Any
    cause: Any
    what: Any
    after_ms: Any


@with_config(OPEN)
class Timeline(TypedDict):
    t_ns: Any
    last_ns: Any
    host: Any
    end: Any
    event: Any
    number: Any
    count: Any
    bytes: Any
    lane: Any
    nic: Any
    epoch: Any
    what: Any


@with_config(OPEN)
class Gap(TypedDict):
    connection: Any
    start_ns: Any
    end_ns: Any
    gap_ms: Amount
    number: Any
    sender_known: Any
    cause: Cause | None
    timeline: list[Timeline]


class Trace(TypedDict):
    schema: Literal[1]
    exact_clock: bool
    files: list[str]
    processes: list[Process]
    connections: list[Connection]
    gaps: list[Gap]


@with_config(OPEN)
class Ring(TypedDict):
    at: Annotated[int, Field(ge=0, le=4294967296)]
    count: Annotated[int, Field(ge=0, le=4294967296)]
    first: Count


@with_config(OPEN)
class Recorded(TypedDict):
    id: Count
    direction: Literal["send", "recv"]
    peer_process: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    peer: str
    home_nic: str
    peer_home_nic: NotRequired[Count]
    messages: Ring
    events: Ring


@with_config(OPEN)
class TraceDump(TypedDict):
    schema: Literal[1]
    reason: str
    host: str
    process: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    boot: str
    build_id: str
    pid: Count
    mode: Count
    wall_ns: Count
    t_ns: Count
    record_bytes: Literal[32]
    kinds: Annotated[dict[str, str], Field(json_schema_extra={"propertyNames": {"pattern": "^[0-9]{1,3}$"}})]
    states: list[str]
    path_states: list[str]
    nics: list[str]
    texts: list[str]
    process_events: Ring
    connections: list[Recorded]


SCHEMAS: Forms = {
    "trace": ("What `r2cc trace --json` prints (docs/internals/trace.md)", Trace),
    "trace_dump": ("Header of a flight recorder's dump (docs/internals/trace.md)", TraceDump),
}
