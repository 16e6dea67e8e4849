"""RDMA: devices, ports, GIDs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.doctor.checks.mark import of_fleet, of_host
from harness.doctor.model import ERROR, NOTE, WARNING, Fleet, Patient, Seen, odd_ones, usual
from harness.facts import catalogue as facts
from harness.facts.sysfs import Gid, RdmaPort

RDMA_MODULE = {
    "mlx5_core": "mlx5_ib",
    "bnxt_en": "bnxt_re",
    "ice": "irdma",
    "mlx4_en": "mlx4_ib",
    "ionic": "ionic_rdma",
}
ETHERNET = "Ethernet"


@of_host("rdma-driver", facts.NET, facts.RDMA)
def driver(patient: Patient) -> Iterator[Seen]:
    """A NIC whose driver has an RDMA part that is not there."""
    ports = patient.ports()
    for nic, shown in (patient.known.get(facts.NET) or {}).items():
        wanted = RDMA_MODULE.get(shown.driver)
        if nic in patient.data and wanted and nic not in ports:
            loaded = wanted in (patient.known.get(facts.MODULES) or frozenset())
            text = f"{shown.driver} without an RDMA device" + ("" if loaded else f": {wanted} is not loaded")
            yield Seen(WARNING, patient.name, nic, text, f"modprobe {wanted}" if not loaded else "")


@of_host("rdma-port", facts.RDMA)
def port(patient: Patient) -> Iterator[Seen]:
    for nic, found in patient.ports().items():
        if found.state != "ACTIVE":
            yield Seen(
                ERROR, patient.name, nic, f"{found.device} port {found.port} is {found.state} ({found.physical})"
            )


def gids_of(found: RdmaPort, nic: str) -> list[Gid]:
    """Those of one NIC: a port's others belong to VLANs or containers on top of it."""
    return [gid for gid in found.gids if gid.nic in ("", nic)]


def v2_index(found: RdmaPort, nic: str, address: str) -> int | None:
    """Of the RoCE v2 GID that stands for the NIC's IPv4 address, or for any of its own."""
    fitting = [gid for gid in gids_of(found, nic) if gid.version == 2 and gid.ipv4]
    own = [gid for gid in fitting if gid.ipv4 == address]
    return next((gid.index for gid in [*own, *fitting]), None)


@of_fleet("gid-index", facts.RDMA, facts.ADDRESSES)
def gids(fleet: Fleet) -> Iterator[Seen]:
    indices: dict[tuple[str, str], int] = {}
    for one in fleet.patients:
        told = one.known.get(facts.SETTINGS) or {}
        chosen = told.get("NCCL_IB_GID_INDEX", "")
        for nic, found in one.ports().items():
            if found.link_layer != ETHERNET:
                continue
            index = v2_index(found, nic, one.address(nic))
            if index is None:
                yield _without_ipv4(one.name, nic, found, told.get("NCCL_IB_ADDR_FAMILY", ""))
                continue
            indices[one.name, nic] = index
            yield from _chosen(one.name, nic, found, chosen)
    for (name, nic), index in odd_ones(indices).items():
        text = f"RoCE v2 for IPv4 is GID {index}, most have it at {usual(indices.values())}"
        yield Seen(WARNING, name, nic, text)


def _without_ipv4(name: str, nic: str, found: RdmaPort, family: str) -> Seen:
    """Some sites have IPv6 alone; NCCL looks for IPv4 unless it is told."""
    if any(gid.version == 2 and not gid.gid.startswith("fe80") for gid in gids_of(found, nic)):
        remedy = "give the NIC an IPv4 address; NCCL by itself also takes NCCL_IB_ADDR_FAMILY=AF_INET6"
        text = f"{found.device} has RoCE v2 GIDs for IPv6 addresses alone"
        return Seen(NOTE if family == "AF_INET6" else WARNING, name, nic, text, remedy)
    return Seen(ERROR, name, nic, f"{found.device} has no RoCE v2 GID for an IPv4 address")


def _chosen(name: str, nic: str, found: RdmaPort, chosen: str) -> Iterator[Seen]:
    if not chosen.isdecimal():
        return
    gid = next((each for each in found.gids if each.index == int(chosen)), None)
    if gid is None:
        yield Seen(ERROR, name, nic, f"NCCL_IB_GID_INDEX={chosen}, but {found.device} has no such GID")
    elif gid.version != 2:
        yield Seen(
            ERROR, name, nic, f"NCCL_IB_GID_INDEX={chosen} is RoCE v1 on {found.device}: no router lets it through"
        )
    elif not gid.ipv4 and gid.gid.startswith("fe80"):
        yield Seen(ERROR, name, nic, f"NCCL_IB_GID_INDEX={chosen} is a link-local address on {found.device}")


@of_fleet("rdma-mtu", facts.RDMA, facts.IBV)
def mtu(fleet: Fleet) -> Iterator[Seen]:
    """What libibverbs says: RDMA's own MTU is a power of two that fits in the NIC's."""
    told = {(one.name, nic): found for one in fleet.patients for nic, found in _active_mtu(one).items()}
    for (name, nic), found in odd_ones(told).items():
        yield Seen(WARNING, name, nic, f"RDMA MTU {found}, most have {usual(told.values())}")


def _active_mtu(patient: Patient) -> Mapping[str, int]:
    devices = {device.name: device for device in patient.known.get(facts.IBV) or ()}
    found = {}
    for nic, port_found in patient.ports().items():
        device = devices.get(port_found.device)
        for each in device.ports if device else ():
            if each.number == port_found.port and each.active_mtu:
                found[nic] = each.active_mtu
    return found


@of_host("rdma-netns", facts.RDMA_NETNS)
def netns(patient: Patient) -> Iterator[Seen]:
    ports = patient.known.get(facts.RDMA)
    if ports and patient.known.get(facts.RDMA_NETNS) == "exclusive":
        yield Seen(NOTE, patient.name, "", "RDMA devices belong to one network namespace each")
