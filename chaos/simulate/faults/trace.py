"""A trace of faults: what was generated, listed or imported, saved as JSON lines and replayed exactly.

The first line says of what; every other line is one fault. Python writes floats so that they are read back equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from harness.config.fitting import words
from harness.errors import InputErrors
from harness.schemas.form import form

Kind = Literal["cut", "flap", "degraded"]
What = Literal["nic", "port", "tor", "spine", "host"]
Streams = tuple[tuple[str, int], ...]

T = TypeVar("T")
Count = Annotated[int, Field(ge=0)]
Lasting = Annotated[float, Field(gt=0)]
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

SCHEMA: Final = 1
LARGEST = 256 << 20
"""Bytes of a file: a million faults have 150 MB."""
DAY_S = 86400.0
PLACES: dict[str, tuple[str, ...]] = {
    "nic": ("host", "nic"),
    "port": ("host", "nic", "port"),
    "tor": ("tor",),
    "spine": ("spine",),
    "host": ("host",),
}
"""What `where` holds; of a spine also (spine, tor): that ToR's uplink to it."""


@dataclass(frozen=True)
class Head:
    """The first line."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    schema: Literal[1]
    seed: Count
    index: Count
    """which of several traces of the seed"""
    days: Lasting
    topology: str
    """its name"""
    streams: Mapping[str, int]
    """the seed of every process"""
    faults: Count
    """how many lines follow"""


@dataclass(frozen=True, slots=True)
class Fault:
    """The one primitive: `factor` is what `where` has left (0: nothing) from `t_s` on for `duration_s`.

    `process`: the generator it comes from. `silent`: nobody is told, as with a black hole.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    t_s: Annotated[float, Field(ge=0)]
    duration_s: Lasting
    kind: Kind
    what: What
    where: Annotated[tuple[Count, ...], Field(min_length=1, max_length=3)]
    """[host, nic], [host, nic, port], [tor], [spine] or [spine, tor] (that ToR's uplink), [host]"""
    factor: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """what is left"""
    process: str = "listed"
    silent: bool = False

    @property
    def end_s(self) -> float:
        return self.t_s + self.duration_s


@dataclass(frozen=True, slots=True)
class Trace:
    """Faults by time. `streams`: the seed of every generator; `index`: which of several traces of one seed."""

    seed: int
    days: float
    topology: str
    faults: tuple[Fault, ...] = ()
    index: int = 0
    streams: Streams = ()


@form("sim_trace")
def json_schema() -> dict[str, Any]:
    from harness.schemas.made import schema_of

    title = "A line of a trace of faults: the first is a head, every other a fault"
    made = schema_of("sim_trace", title, (Head, Fault), read=True)
    places = {what: (len(names), len(names) + (what == "spine")) for what, names in PLACES.items()}
    made["$defs"]["Fault"]["allOf"] = [
        {
            "if": {"properties": {"what": {"const": what}}},
            "then": {"properties": {"where": {"minItems": least, "maxItems": most}}},
        }
        for what, (least, most) in places.items()
    ]
    return made


def listed(faults: list[Fault], days: float, topology: str) -> Trace:
    """A trace of faults that somebody wrote down."""
    return Trace(seed=0, days=days, topology=topology, faults=tuple(sorted(faults, key=attrgetter("t_s"))))


def text(trace: Trace) -> str:
    """What its file holds."""
    return "".join(f"{line}\n" for line in lines(trace))


def lines(trace: Trace) -> Iterator[str]:
    head = Head(SCHEMA, trace.seed, trace.index, trace.days, trace.topology, dict(trace.streams), len(trace.faults))
    yield json.dumps(asdict(head))
    for fault in trace.faults:
        yield json.dumps(asdict(fault))


def place_problem(what: What, where: tuple[int, ...]) -> str:
    """What is wrong with a place of that kind; empty: nothing."""
    names = PLACES[what]
    right = len(where) in (len(names), len(names) + (what == "spine"))
    return "" if right else f"where: [{', '.join(names)}] for a {what}, not {list(where)}"


def parse(text: str, file: str) -> Trace:
    """Raises InputErrors with every bad line of a damaged file; `file` is only what the messages call it."""
    errors: list[str] = []
    rows = text.splitlines()
    if not rows:
        raise InputErrors([f"{file}:1: the file is empty; its first line says what it is of"])
    head = _line(TypeAdapter(Head), rows[0], f"{file}:1", errors)
    kind: TypeAdapter[Fault] = TypeAdapter(Annotated[Fault, AfterValidator(_placed)])
    faults = [_line(kind, row, f"{file}:{number}", errors) for number, row in enumerate(rows[1:], 2)]
    whole = [fault for fault in faults if fault is not None]
    errors += _order(faults, file)
    if not errors and head is not None and head.faults != len(whole):
        errors.append(f"{file}:1: says {head.faults} faults, but {len(whole)} follow: the file is not whole")
    if errors or head is None:
        raise InputErrors(errors)
    return Trace(head.seed, head.days, head.topology, tuple(whole), head.index, tuple(head.streams.items()))


def _placed(fault: Fault) -> Fault:
    if wrong := place_problem(fault.what, fault.where):
        raise ValueError(wrong)
    return fault


def _line(kind: TypeAdapter[T], row: str, place: str, errors: list[str]) -> T | None:
    try:
        return kind.validate_json(row)
    except ValidationError as error:
        for problem in error.errors():
            unknown = problem["type"] == "unexpected_keyword_argument"
            told = [*problem["loc"], "unknown key" if unknown else words(BaseModel, problem)]
            errors.append(f"{place}: {': '.join(map(str, told))}")
        return None


def _order(faults: list[Fault | None], file: str) -> list[str]:
    """Lines whose fault is before the last whole one."""
    errors, last = [], 0.0
    for number, fault in enumerate(faults, 2):
        if fault is not None and fault.t_s < last:
            errors.append(f"{file}:{number}: t_s {fault.t_s} is before that of a line above it ({last})")
        last = max(last, fault.t_s) if fault is not None else last
    return errors
