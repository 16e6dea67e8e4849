"""The port of an adapter, taken down by its firmware, as a pulled cable would be: ConnectX and InfiniBand."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chaos.faults.fault import NicLike
from chaos.faults.parts.keep import Kept
from chaos.faults.steps import Command

PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclass(frozen=True)
class Port:
    """`infiniband` has an RDMA device and no Ethernet; otherwise `pci` is a ConnectX's function."""

    host: str
    nic: str
    pci: str
    device: str = ""
    port: int = 1

    @property
    def words(self) -> tuple[str, ...]:
        """What `ibportstate` is to act on."""
        return ("-C", self.device, "-P", str(self.port), "-D", "0", str(self.port))

    def set(self, *, down: bool) -> Command:
        """The local port by a directed route of no hops: it answers also when its link is down."""
        if self.device:
            return Command(self.host, ("ibportstate", *self.words, "disable" if down else "enable"))
        return Command(self.host, ("mlxlink", "-d", self.pci, "--port_state", "DN" if down else "UP"))


def pci_of(path: str) -> str:
    """The nearest PCI function above a device of sysfs; virtio NICs have one more level. Empty: it has none."""
    found = [part for part in path.split("/") if PCI.fullmatch(part)]
    return found[-1] if found else ""


def port_of(nic: NicLike, kept: Kept) -> Port:
    """ValueError for a NIC whose port has no switch of its own."""
    told = kept.of_nic[nic.name]
    pci, driver = pci_of(told["device"]), told["driver"].rpartition("/")[2]
    if kept.link(nic.name).get("link_type") == "infiniband":
        devices = told.get("devices", "").split()
        if not devices:
            raise ValueError(f"{nic.host} {nic.name}: has no RDMA device for ibportstate")
        return Port(nic.host, nic.name, pci, devices[0])
    if driver != "mlx5_core" or not pci:
        raise ValueError(f"{nic.host} {nic.name}: method: port is for ConnectX and InfiniBand, its driver is {driver}")
    return Port(nic.host, nic.name, pci)
