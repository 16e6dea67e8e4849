"""The cluster that is simulated: hosts, NICs, ports, ToRs. All mistakes of a file at once, each with its line.

`rail`: port k of NIC i of a pod's hosts is at ToR i * ports + k of that pod. `rack`: all NICs of a pod's hosts are at
one ToR, two with two ports. Without a spine nothing joins the ToRs: rails are islands ("rail-only").
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, ValidationError

from chaos.simulate import topology_checks
from harness.config import documents
from harness.config.documents import Document
from harness.config.kinds import SIMULATED_NETWORK
from harness.config.words import in_order, shown
from harness.errors import InputErrors

Capacities = tuple[float, ...]
"""What is left of each NIC of one host, 0..1 of `rate_gbit`."""

Place = tuple[str | int, ...]
Positive = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Fabric(_Model):
    """What is above the NICs. `pod`: how many hosts a ToR serves (without it: all)."""

    kind: Literal["rail", "rack"] = "rail"
    pod: Annotated[StrictInt, Field(ge=1, le=65536)] | None = None
    oversubscription: Annotated[float, Field(ge=1, strict=True, allow_inf_nan=False)] = 1.0
    """Of the ToRs: bandwidth towards the hosts over that towards the spine."""
    spine: StrictBool = True
    spines: Annotated[StrictInt, Field(ge=1, le=4096)] = 16
    """How many spine switches (or planes) share the load of a ToR's uplinks: one lost takes 1/spines."""


class Override(_Model):
    """One NIC that differs as built; `capacity` is its share of `rate_gbit`, 0 for one that is not there."""

    host: Annotated[StrictInt, Field(ge=0)]
    nic: Annotated[StrictInt, Field(ge=0)]
    capacity: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Topology(_Model):
    """`gpus` and `nics` are of a host, `rate_gbit` of a NIC (all ports), `nvlink_GBps` of a GPU; both one way."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")] = "cluster"
    hosts: Annotated[StrictInt, Field(ge=2, le=65536)]
    gpus: Annotated[StrictInt, Field(ge=1, le=64)] = 8
    nics: Annotated[StrictInt, Field(ge=1, le=64)] = 8
    ports: Annotated[StrictInt, Field(ge=1, le=2)] = 1
    rate_gbit: Positive = 400.0
    nvlink_GBps: Positive = 450.0
    fabric: Fabric = Fabric()
    overrides: list[Override] = []

    @cached_property
    def pod(self) -> int:
        """Hosts a ToR serves: a cluster of fewer fills one pod in part."""
        return min(self.fabric.pod or self.hosts, self.hosts)

    @property
    def tors_of_pod(self) -> int:
        return self.ports * (self.nics if self.fabric.kind == "rail" else 1)

    @property
    def tors(self) -> int:
        return self.hosts // self.pod * self.tors_of_pod

    @property
    def whole(self) -> Capacities:
        return (1.0,) * self.nics

    @cached_property
    def as_built(self) -> dict[int, Capacities]:
        """The hosts that are not whole even without a fault."""
        found: dict[int, list[float]] = {}
        for item in self.overrides:
            found.setdefault(item.host, [1.0] * self.nics)[item.nic] = item.capacity
        return {host: tuple(left) for host, left in sorted(found.items()) if min(left) < 1}

    def as_dict(self) -> dict[str, Any]:
        """What `load` takes."""
        return self.model_dump(mode="json", by_alias=True)


def tor_of(topology: Topology, host: int, nic: int, port: int = 0) -> int:
    """The number of the ToR at which that port is."""
    rail = nic * topology.ports if topology.fabric.kind == "rail" else 0
    return host // topology.pod * topology.tors_of_pod + rail + port


def at_tor(topology: Topology, tor: int) -> list[tuple[int, int, int]]:
    """(host, nic, port) of everything that is plugged into ToR `tor`."""
    pod, place = divmod(tor, topology.tors_of_pod)
    hosts = range(pod * topology.pod, (pod + 1) * topology.pod)
    if topology.fabric.kind == "rail":
        nic, port = divmod(place, topology.ports)
        return [(host, nic, port) for host in hosts]
    return [(host, nic, place) for host in hosts for nic in range(topology.nics)]


def load(source: Path | str | Mapping[str, Any]) -> Topology:
    """From a YAML file or from what one holds. Raises InputErrors with all mistakes; UsageError without such a file."""
    if isinstance(source, Mapping):
        topology, found = check(source)
        errors = [f"topology: {'.'.join(map(str, place))}{': ' if place else ''}{text}" for place, text in found]
        if topology is None:
            raise InputErrors(errors)
        return topology
    return checked(documents.load(Path(source), SIMULATED_NETWORK))


def parse(text: str, file: str) -> Topology:
    """From YAML text; `file` is only what the messages call it."""
    return checked(documents.parse(text, file, SIMULATED_NETWORK))


def checked(document: Document) -> Topology:
    """The topology of a document. Raises InputErrors with every mistake."""
    if document.unreadable:
        raise InputErrors(document.errors)
    topology, found = check(document.value)
    errors = [*document.errors, *(document.message(place, _dotted(place, text), key=True) for place, text in found)]
    if topology is None or errors:
        raise InputErrors(in_order(errors, document.file))
    return topology


def check(value: Any) -> tuple[Topology | None, list[tuple[Place, str]]]:
    """The topology, or every mistake of it with its place: for files that hold one, as experiments do."""
    found: list[tuple[Place, str]] = []
    topology = None
    try:
        topology = Topology.model_validate(value)
    except ValidationError as error:
        found = [(tuple(problem["loc"]), _say(problem)) for problem in error.errors()]
    found += topology_checks.between_keys(value)
    if topology is not None and not found:
        found = topology_checks.impossible(topology)
    return (None, found) if found else (topology, [])


def _dotted(place: Place, text: str) -> str:
    return f"{'.'.join(map(str, place))}: {text}" if place else text


def _say(problem: Mapping[str, Any]) -> str:
    """pydantic's message, with the value or what is known where that helps."""
    place = problem["loc"]
    if problem["type"] == "extra_forbidden":
        parts: dict[str, type[BaseModel]] = {"fabric": Fabric, "overrides": Override}
        inner = parts.get(str(place[0]), Topology) if len(place) > 1 else Topology
        return f"unknown key; known here: {', '.join(f.alias or name for name, f in inner.model_fields.items())}"
    if problem["type"] == "missing":
        return "missing"
    message = str(problem["msg"][:1].lower() + problem["msg"][1:])
    return message if problem["type"] == "model_type" else f"{message}, not {shown(problem['input'])}"


def json_schema() -> dict[str, Any]:
    """The form of a topology file; a test keeps harness/schemas/sim_topology.schema.json equal."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "r2cc:sim_topology:1"}
    return {**head, **Topology.model_json_schema(), "title": "The topology of a simulation"}
