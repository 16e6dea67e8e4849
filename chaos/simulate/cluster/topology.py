"""The cluster that is simulated: hosts, NICs, ports, ToRs.

`rail`: port k of NIC i of a pod's hosts is at ToR i * ports + k of that pod. `rack`: all NICs of a pod's hosts are at
one ToR, two with two ports. Without a spine nothing joins the ToRs: rails are islands ("rail-only").
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from harness.schemas.form import form

if TYPE_CHECKING:
    from harness.schedules.costs.model import Costs

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


@form("sim_topology", "The topology of a simulation")
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
    costs: str | None = None
    """What hops and bytes cost: a profile of `r2cc plan --costs`, or a file. Left out, it goes by rate and GPUs."""

    @cached_property
    def costs_found(self) -> Costs:
        """Raises UsageError where there are none of that name."""
        from harness.schedules.costs import model

        return model.usual(self.rate_gbit, self.gpus) if self.costs is None else model.load(self.costs)

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
