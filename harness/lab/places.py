"""Where the lab's NICs are, for the net library (R2CC_TOPO_FILE): sysfs cannot say it of virtual NICs.

The schema is harness/schemas/places.schema.json; r2cc_patches/src/nic/topology.cc reads the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from harness.schemas.form import Limits, form, left_out

if TYPE_CHECKING:
    from harness.lab.topology import Topology

FILE = "places.json"
"""Its name in the lab's folder, which all hosts of the lab see."""


@dataclass(frozen=True)
class Place:
    numa: Annotated[int, Limits(minimum=0, maximum=1024)] | None = left_out()
    switch: str | None = left_out()
    rate_gbit: Annotated[float, Limits(minimum=0, maximum=100000)] | None = left_out()


@dataclass(frozen=True)
class HostPlaces:
    nics: Mapping[str, Place]


@form("places", "Places of NICs (R2CC_TOPO_FILE)")
@dataclass(frozen=True)
class Places:
    """Of the NICs of every host."""

    hosts: Mapping[str, HostPlaces]


def places(topology: Topology) -> Places:
    """NUMA node, PCI switch and rate of every data NIC, by host; what the topology does not say is left out."""
    return Places({host: _places(topology, host) for host in (f"h{index}" for index in range(topology.hosts))})


def _places(topology: Topology, host: str) -> HostPlaces:
    return HostPlaces({nic: _place(topology, host, nic) for nic in (f"eth{k}" for k in range(topology.nics))})


def _place(topology: Topology, host: str, nic: str) -> Place:
    known = topology.place_of(host, nic)
    rate_gbit = topology.rate_of(host, nic)
    return Place(rate_gbit=rate_gbit) if known is None else Place(known.numa, known.switch, rate_gbit)
