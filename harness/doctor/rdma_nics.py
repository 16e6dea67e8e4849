"""Which RDMA port belongs to which NIC. A port without a NIC of its own is given to none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.facts import Known, catalogue
from harness.facts.sysfs import RdmaPort


def by_nic(known: Known) -> dict[str, RdmaPort]:
    """Ports by NIC: by what their GIDs say, else by `rdma link`, else by the hardware that both share."""
    kinds = known.get(catalogue.RDMA_DEVICES) or {}
    ports = [port for port in known.get(catalogue.RDMA) or () if kinds.get(port.device) != "smi"]
    found: dict[str, RdmaPort] = {}
    for port in ports:
        for nic in port.nics:
            found.setdefault(nic, port)
    for port in ports:
        if not port.nics and (linked := _linked(port, known)):
            found.setdefault(linked, port)
    taken = list(found.values())
    for port in ports:
        if not port.nics and port not in taken:
            for nic in _beside(port, ports, known):
                found.setdefault(nic, port)
    return found


def _linked(port: RdmaPort, known: Known) -> str:
    """A port that is down may have no GID."""
    links = known.get(catalogue.RDMA_LINKS) or ()
    return next((link.nic for link in links if (link.device, link.port) == (port.device, port.port)), "")


def _beside(port: RdmaPort, ports: Sequence[RdmaPort], known: Known) -> Iterator[str]:
    """NICs of the same PCI function, as of InfiniBand: with the port's number; where NICs have none, only if there is
    one NIC and one port."""
    shown = known.get(catalogue.NET) or {}
    same = [nic for nic in shown.values() if port.hardware and nic.device == port.hardware]
    alone = len(same) == len([each for each in ports if each.hardware == port.hardware]) == 1
    for nic in same:
        if alone or (nic.port is not None and nic.port + 1 == port.port):
            yield nic.name
