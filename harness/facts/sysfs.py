"""What the kernel shows as files: NICs, RDMA ports with their GIDs and counters, PCI devices."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.facts.base import parser, table

MOST_LANES = 32
"""Drivers of virtual devices tell 63 or 255."""


@dataclass(frozen=True)
class Nic:
    """`device` is where its hardware is in /sys/devices; empty for virtual ones."""

    name: str
    speed_gbit: float | None
    duplex: str
    device: str
    driver: str
    port: int | None = None
    """Its place among the NICs of one device, from 0; None: not shown."""

    @property
    def pci(self) -> str:
        """Its PCI address; empty where it has none. A virtio NIC's is that of the virtio device's parent."""
        return _pci_in(self.device)


@dataclass(frozen=True)
class Gid:
    """`version` is 1 or 2 for RoCE, 0 otherwise. `ipv4` empty: the GID stands for no IPv4 address."""

    index: int
    gid: str
    version: int
    nic: str
    ipv4: str


@dataclass(frozen=True)
class RdmaPort:
    device: str
    port: int
    state: str
    physical: str
    link_layer: str
    gids: tuple[Gid, ...]
    hardware: str
    """Where its hardware is in /sys/devices; empty for soft-RoCE."""

    @property
    def nic(self) -> str:
        """Its own: the first that its GIDs name."""
        return next(iter(self.nics), "")

    @property
    def nics(self) -> tuple[str, ...]:
        """All that its GIDs name: also VLANs, and a container's interfaces on top of the port's own."""
        return tuple(dict.fromkeys(gid.nic for gid in self.gids if gid.nic))

    @property
    def pci(self) -> str:
        return _pci_in(self.hardware)


def _pci_in(path: str) -> str:
    """The last PCI address in a path of /sys/devices."""
    return next((part for part in reversed(path.split("/")) if PCI_ADDRESS.fullmatch(part)), "")


@dataclass(frozen=True)
class PciDevice:
    """Widths are lanes, speeds GT/s; None: not shown. `acs` None: no such capability, or it may not be read."""

    address: str
    kind: int
    """The class: 0x0200 Ethernet, 0x0207 InfiniBand, 0x0302 GPU, 0x0604 bridge."""
    vendor: int
    speed_gts: float | None
    most_gts: float | None
    width: int | None
    most_width: int | None
    path: tuple[str, ...]
    """PCI addresses from the root port down to itself."""
    acs: int | None
    driver: str = ""


MANAGEMENT_DEVICE = re.compile(r"smi\d*")
PCI_ADDRESS = re.compile(r"[0-9a-f]{4,6}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
ACS_CAPABILITY = 0x000D
ACS_REDIRECTS = 0b0100101
"""Source validation, request redirect, upstream forwarding: what sends peer-to-peer traffic up to the root."""


@parser("sysfs (net)")
def nics(text: str) -> dict[str, Nic]:
    files = table(text)
    found = dict.fromkeys(path.split("/")[4] for path in files)
    return {name: _nic(name, files) for name in found}


def _nic(name: str, files: Mapping[str, str]) -> Nic:
    def value(file: str) -> str:
        return files.get(f"/sys/class/net/{name}/{file}", "")

    mbit = int(value("speed") or -1)
    return Nic(
        name,
        mbit / 1000 if 0 < mbit < 2**31 else None,
        value("duplex"),
        value("device"),
        value("device/driver").rpartition("/")[2],
        int(value("dev_port"), 0) if value("dev_port") else None,
    )


@parser("sysfs (infiniband)")
def rdma_ports(text: str) -> tuple[RdmaPort, ...]:
    """Not those of `smi` devices, by which InfiniBand XDR is managed: nothing is sent through them."""
    files = table(text)
    found = dict.fromkeys(
        (parts[4], int(parts[6])) for parts in (path.split("/") for path in files) if parts[5:6] == ["ports"]
    )
    return tuple(_port(device, port, files) for device, port in found if not MANAGEMENT_DEVICE.fullmatch(device))


def _port(device: str, port: int, files: Mapping[str, str]) -> RdmaPort:
    above = f"/sys/class/infiniband/{device}"

    def value(file: str) -> str:
        return files.get(f"{above}/ports/{port}/{file}", "")

    return RdmaPort(
        device,
        port,
        value("state").rpartition(": ")[2],
        value("phys_state").rpartition(": ")[2],
        value("link_layer"),
        tuple(_gids(f"{above}/ports/{port}", files)),
        files.get(f"{above}/device", ""),
    )


def _gids(port: str, files: Mapping[str, str]) -> Iterator[Gid]:
    indices = [path.rpartition("/")[2] for path in files if path.startswith(f"{port}/gids/")]
    for index in sorted(int(each) for each in indices):
        gid = files[f"{port}/gids/{index}"]
        kind = files.get(f"{port}/gid_attrs/types/{index}", "")
        version = {"RoCE v2": 2, "IB/RoCE v1": 1}.get(kind, 0)
        mapped = ipaddress.IPv6Address(gid).ipv4_mapped
        yield Gid(index, gid, version, files.get(f"{port}/gid_attrs/ndevs/{index}", ""), str(mapped or ""))


@parser("sysfs (RDMA counters)")
def rdma_counters(text: str) -> dict[str, dict[str, int]]:
    """By port (`mlx5_0/1`), by the counter's name."""
    found: dict[str, dict[str, int]] = {}
    for path, value in table(text).items():
        parts = path.split("/")
        found.setdefault(f"{parts[4]}/{parts[6]}", {})[parts[8]] = int(value)
    return found


@parser("sysfs (PCI)")
def pci_devices(text: str) -> dict[str, PciDevice]:
    files = table(text)
    found = dict.fromkeys(path.split("/")[5] for path in files)
    return {address: _pci(address, files) for address in found}


def _pci(address: str, files: Mapping[str, str]) -> PciDevice:
    def value(file: str) -> str:
        return files.get(f"/sys/bus/pci/devices/{address}/{file}", "")

    def gts(file: str) -> float | None:
        speed = re.match(r"([\d.]+) GT/s", value(file))
        return float(speed[1]) if speed else None

    def lanes(file: str) -> int | None:
        return int(value(file)) if value(file).isdigit() and 0 < int(value(file)) <= MOST_LANES else None

    config = value("config")
    return PciDevice(
        address,
        int(value("class"), 16) >> 8,
        int(value("vendor"), 16),
        gts("current_link_speed"),
        gts("max_link_speed"),
        lanes("current_link_width"),
        lanes("max_link_width"),
        tuple(part for part in value("path").split("/") if PCI_ADDRESS.fullmatch(part)),
        acs_control(bytes.fromhex(config)) if config else None,
        value("driver").rpartition("/")[2],
    )


def acs_control(config: bytes) -> int | None:
    """The ACS control register out of PCI configuration space; None: no ACS, or only the first 64 bytes were readable.

    Extended capabilities begin at 0x100: 16 bits of number, 4 of version, 12 of where the next one lies.
    """
    at, seen = 0x100, set[int]()
    while at >= 0x100 and at + 8 <= len(config) and at not in seen:
        seen.add(at)
        head = int.from_bytes(config[at : at + 4], "little")
        if head & 0xFFFF == ACS_CAPABILITY:
            return int.from_bytes(config[at + 6 : at + 8], "little")
        at = head >> 20
    return None
