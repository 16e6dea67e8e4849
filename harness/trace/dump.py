"""One dump of a flight recorder: bytes to records. What is not exactly a dump is refused with one clear line."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired

from typing_extensions import TypedDict

from harness.errors import UsageError
from harness.schemas import problems
from harness.schemas.form import Count, Limits, form, growing

MAGIC = b"R2TRACE\n"
VERSION = 1
START = struct.Struct("<8sIIQ")
RECORD = struct.Struct("<QQIIIBBH")
HINT = "r2cc trace reads what R2CC_TRACE_FILE made: give it those files, or the directory they are in"


Index = Annotated[int, Limits(minimum=0, maximum=4294967296)]
ProcessId = Annotated[str, Limits(pattern=r"^[0-9a-f]{16}$")]


@growing
class RingHeader(TypedDict):
    at: Index
    count: Index
    first: Count


@growing
class ConnectionHeader(TypedDict):
    id: Count
    direction: Literal["send", "recv"]
    peer_process: ProcessId
    peer: str
    home_nic: str
    peer_home_nic: NotRequired[Count]
    messages: RingHeader
    events: RingHeader


@form("trace_dump", "Header of a flight recorder's dump (docs/internals/trace.md)", version=None)
@growing
class Header(TypedDict):
    """Of a dump, as the net library writes it."""

    schema: Literal[1]
    reason: str
    host: str
    process: ProcessId
    boot: str
    build_id: str
    pid: Count
    mode: Count
    wall_ns: Count
    t_ns: Count
    record_bytes: Literal[32]
    kinds: Annotated[dict[str, str], Limits(propertyNames={"pattern": "^[0-9]{1,3}$"})]
    states: list[str]
    path_states: list[str]
    nics: list[str]
    texts: list[str]
    process_events: RingHeader
    connections: list[ConnectionHeader]


class Record(NamedTuple):
    """One record, with names for numbers. `epoch` of a `path` record is the index of its peer's text."""

    t_ns: int
    number: int
    bytes: int
    lane: int
    epoch: int
    kind: str
    code: int
    text: str


@dataclass(frozen=True)
class Ring:
    """The newest records of a ring; `first` were written before the first of these."""

    first: int
    records: list[Record]


@dataclass(frozen=True)
class Connection:
    """One end of a connection as one dump has it."""

    about: ConnectionHeader
    messages: Ring
    events: Ring


@dataclass(frozen=True)
class Dump:
    """A whole file."""

    path: Path
    header: Header
    process_events: Ring
    connections: list[Connection]


def is_dump(path: Path) -> bool:
    """Whether the file begins as a dump does. Raises UsageError when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", HINT) from error


def load(path: Path) -> Dump:
    """Reads a file. Raises UsageError that says what is wrong with it."""
    try:
        return parse(path.read_bytes(), path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", HINT) from error


def parse(data: bytes, path: Path) -> Dump:
    """The same from its bytes; `path` is for messages."""
    header, body = _split(data, path)
    if found := problems("trace_dump", header):
        raise UsageError(f"{path}: its header is not a flight recorder's: {found[0]}", HINT)
    if len(body) % RECORD.size != 0:
        raise UsageError(f"{path}: {len(body) % RECORD.size} bytes are left over behind the last record", HINT)
    reader = _Reader(body, header, path)
    connections = [
        Connection(about, reader.ring(about["messages"]), reader.ring(about["events"]))
        for about in header["connections"]
    ]
    return Dump(path, header, reader.ring(header["process_events"]), connections)


def _split(data: bytes, path: Path) -> tuple[Any, bytes]:
    """Header and records of a file whose size is what it says."""
    if data[: len(MAGIC)] != MAGIC[: len(data)] or not data:
        raise UsageError(f"{path} is not a dump of R2CC's flight recorder", HINT)
    if len(data) < START.size:
        raise UsageError(f"{path} is cut off: {len(data)} bytes, its start alone has {START.size}", HINT)
    _, version, header_bytes, size = START.unpack_from(data)
    if version != VERSION:
        hint = "use the r2cc that came with the library that wrote it"
        raise UsageError(f"{path} has format {version}; this r2cc reads format {VERSION}", hint)
    if len(data) != size:
        what = "is cut off" if len(data) < size else "has something behind its end"
        raise UsageError(f"{path} {what}: {len(data)} bytes, it should have {size}", HINT)
    end = START.size + header_bytes
    try:
        header = json.loads(data[START.size : end])
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: its header is damaged: {error}", HINT) from error
    if end > size or not isinstance(header, dict):
        raise UsageError(f"{path}: its header is damaged: it has no end", HINT)
    return header, data[end:]


class _Reader:
    def __init__(self, body: bytes, header: dict[str, Any], path: Path) -> None:
        self._body = body
        self._kinds = {int(number): name for number, name in header["kinds"].items()}
        self._texts = header["texts"]
        self._path = path

    def ring(self, where: dict[str, int]) -> Ring:
        begin, count = where["at"] * RECORD.size, where["count"] * RECORD.size
        if begin + count > len(self._body):
            raise UsageError(f"{self._path}: its header speaks of records that are not there", HINT)
        cut = memoryview(self._body)[begin : begin + count]
        return Ring(where["first"], [self._record(fields) for fields in RECORD.iter_unpack(cut)])

    def _record(self, fields: tuple[int, ...]) -> Record:
        """Kinds and texts that this version does not know are kept as numbers: a newer minor writer may have more."""
        *numbers, kind, code, text = fields
        words = self._texts[text] if text < len(self._texts) else f"text {text}"
        t_ns, number, size, lane, epoch = numbers
        return Record(t_ns, number, size, lane, epoch, self._kinds.get(kind, f"kind {kind}"), code, words)
