"""Where the lab's NICs are, for the net library (R2CC_TOPO_FILE): sysfs cannot say it of virtual NICs.

The schema is harness/schemas/places.schema.json; r2cc_patches/src/nic/topology.cc reads the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.schemas import validate

if TYPE_CHECKING:
    from harness.lab.topology import Topology

FILE = "places.json"
"""Its name in the lab's folder, which all hosts of the lab see."""


def places(topology: Topology) -> dict[str, Any]:
    """NUMA node, PCI switch and rate of every data NIC, by host; what the topology does not say is left out."""
    hosts = {
        f"h{host}": {"nics": {f"eth{nic}": _nic(topology, f"h{host}", f"eth{nic}") for nic in range(topology.nics)}}
        for host in range(topology.hosts)
    }
    value = {"schema": 1, "hosts": hosts}
    validate("places", value)
    return value


def _nic(topology: Topology, host: str, nic: str) -> dict[str, Any]:
    place = topology.place_of(host, nic)
    known = {"numa": place.numa, "switch": place.switch} if place is not None else {}
    return {key: value for key, value in known.items() if value is not None} | {
        "rate_gbit": topology.rate_of(host, nic)
    }
