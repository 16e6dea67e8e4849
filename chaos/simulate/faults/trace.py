"""A trace of faults: what was generated, listed or imported, saved as JSON lines and replayed exactly.

The first line says of what; every other line is one fault. Python writes floats so that they are read back equal.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

from harness.config import jsons
from harness.config.files import input_of
from harness.errors import InputErrors
from harness.schemas.form import Amount, Count, Limits, form

Kind = Literal["cut", "flap", "degraded"]
What = Literal["nic", "port", "tor", "spine", "host"]
Streams = tuple[tuple[str, int], ...]

Days = Annotated[float, Limits(exclusiveMinimum=0)]

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
HEADER = ("schema", "seed", "index", "days", "topology", "streams", "faults")


@dataclass(frozen=True)
class Head:
    """The first line."""

    schema: Literal[1]
    seed: Count
    index: Count
    """which of several traces of the seed"""
    days: Days
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

    t_s: Amount
    duration_s: Days
    kind: Kind
    what: What
    where: Annotated[tuple[Count, ...], Limits(minItems=1, maxItems=3)]
    """[host, nic], [host, nic, port], [tor], [spine] or [spine, tor] (that ToR's uplink), [host]"""
    factor: Annotated[float, Limits(minimum=0, exclusiveMaximum=1)] = 0.0
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


def write(trace: Trace, path: Path) -> None:
    """Replaces `path` as a whole, or leaves it as it was."""
    partial = path.with_name(path.name + ".part")
    with partial.open("w", encoding="utf-8") as out:
        out.writelines(line + "\n" for line in lines(trace))
    partial.replace(path)


def lines(trace: Trace) -> Iterator[str]:
    head = Head(SCHEMA, trace.seed, trace.index, trace.days, trace.topology, dict(trace.streams), len(trace.faults))
    yield json.dumps(asdict(head))
    for fault in trace.faults:
        yield json.dumps(asdict(fault))


def read(path: Path) -> Trace:
    """Raises UsageError when it cannot be read, InputErrors with every bad line of a damaged file."""
    return parse(input_of(path, "the trace", "give a file that `r2cc sim` wrote", LARGEST), str(path))


def parse(text: str, file: str) -> Trace:
    """The same from text; `file` is only what the messages call it."""
    errors: list[str] = []
    rows = text.splitlines()
    head = _object(rows[0], f"{file}:1", errors) if rows else None
    if head is None:
        head = {}
        errors = errors or [f"{file}:1: the file is empty; its first line says what it is of"]
    else:
        errors += [f"{file}:1: {problem}" for problem in _head_problems(head)]
    faults = [_fault(row, f"{file}:{number}", errors) for number, row in enumerate(rows[1:], 2)]
    whole = [fault for fault in faults if fault is not None]
    errors += _order(faults, file)
    if not errors and head["faults"] != len(whole):
        errors.append(f"{file}:1: says {head['faults']} faults, but {len(whole)} follow: the file is not whole")
    if errors:
        raise InputErrors(errors)
    streams = tuple((str(name), int(seed)) for name, seed in head["streams"].items())
    return Trace(head["seed"], float(head["days"]), head["topology"], tuple(whole), head["index"], streams)


def _object(row: str, place: str, errors: list[str]) -> dict[str, Any] | None:
    try:
        value = jsons.value_of(row)
    except ValueError as error:
        errors.append(f"{place}: not JSON: {error}")
        return None
    if not isinstance(value, dict):
        errors.append(f"{place}: an object is needed here")
        return None
    return value


def _head_problems(head: dict[str, Any]) -> list[str]:
    problems = _keys(head, set(HEADER), set(HEADER))
    if head.get("schema", SCHEMA) != SCHEMA:
        problems.append(f"schema {head['schema']!r} is not one that this version reads ({SCHEMA})")
    for key in ("seed", "index", "faults"):
        if key in head and not (type(head[key]) is int and head[key] >= 0):
            problems.append(f"{key}: a whole number from 0 on, not {head[key]!r}")
    if "days" in head and not (_number(head["days"]) and head["days"] > 0):
        problems.append(f"days: a number above 0, not {head['days']!r}")
    if "topology" in head and not isinstance(head["topology"], str):
        problems.append(f"topology: a name, not {head['topology']!r}")
    streams: Any = head.get("streams", {})
    if not isinstance(streams, dict) or any(type(seed) is not int for seed in streams.values()):
        problems.append("streams: a whole number for every name")
    return problems


def _fault(row: str, place: str, errors: list[str]) -> Fault | None:
    value = _object(row, place, errors)
    if value is None:
        return None
    problems = fault_problems(value)
    errors += [f"{place}: {problem}" for problem in problems]
    return None if problems else fault_from(value)


def fault_from(value: dict[str, Any]) -> Fault:
    """From an object without problems; times become floats."""
    numbers: dict[str, Any] = {key: float(value[key]) for key in ("t_s", "duration_s", "factor") if key in value}
    known: dict[str, Any] = {**value, **numbers, "where": tuple(value["where"])}
    return Fault(**known)


def fault_problems(value: dict[str, Any]) -> list[str]:
    """Everything that is wrong with one fault, for traces and for faults listed in an experiment."""
    problems = _keys(value, set(Fault.__slots__), {"t_s", "duration_s", "kind", "what", "where"})
    if "t_s" in value and not (_number(value["t_s"]) and value["t_s"] >= 0):
        problems.append(f"t_s: seconds from 0 on, not {value['t_s']!r}")
    if "duration_s" in value and not (_number(value["duration_s"]) and value["duration_s"] > 0):
        problems.append(f"duration_s: seconds above 0, not {value['duration_s']!r}")
    for key, known in (("kind", get_args(Kind)), ("what", get_args(What))):
        if key in value and value[key] not in known:
            problems.append(f"{key}: one of {', '.join(known)}, not {value[key]!r}")
    if value.get("what") in PLACES and "where" in value:
        problems += _where(value["what"], value["where"])
    factor = value.get("factor", 0.0)
    if not (_number(factor) and 0 <= factor < 1):
        problems.append(f"factor: what is left, from 0 to below 1, not {factor!r}")
    if not isinstance(value.get("process", ""), str) or type(value.get("silent", False)) is not bool:
        problems.append("process is a name, silent true or false")
    return problems


def _where(what: str, where: Any) -> list[str]:
    names = PLACES[what]
    sizes = {len(names), 2} if what == "spine" else {len(names)}
    whole = isinstance(where, list | tuple) and all(type(part) is int and part >= 0 for part in where)
    if whole and len(where) in sizes:
        return []
    return [f"where: [{', '.join(names)}] for a {what}, not {where!r}"]


def _keys(value: dict[str, Any], known: set[str], needed: set[str]) -> list[str]:
    unknown = sorted(set(value) - known)
    missing = sorted(needed - set(value))
    return [f"unknown key {key!r}" for key in unknown] + [f"missing key {key!r}" for key in missing]


def _order(faults: list[Fault | None], file: str) -> list[str]:
    """Lines whose fault is before the last whole one."""
    errors, last = [], 0.0
    for number, fault in enumerate(faults, 2):
        if fault is not None and fault.t_s < last:
            errors.append(f"{file}:{number}: t_s {fault.t_s} is before that of a line above it ({last})")
        last = max(last, fault.t_s) if fault is not None else last
    return errors


def _number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)
