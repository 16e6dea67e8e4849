"""`ibv_devinfo -v`: RDMA devices as libibverbs sees them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.facts.base import named_lines, parser

GID = re.compile(r"GID\[\s*(?P<index>\d+)\]:\s*(?P<gid>[0-9a-fA-F:.]+)(?:,\s*(?P<type>\S.*))?")


@dataclass(frozen=True)
class Port:
    """MTU in bytes; 0: the port tells none. `gids`: index, GID, type (empty before rdma-core 28)."""

    number: int
    state: str
    active_mtu: int
    max_mtu: int
    link_layer: str
    active_speed: str
    active_width: str
    gids: tuple[tuple[int, str, str], ...]


@dataclass(frozen=True)
class Device:
    name: str
    transport: str
    firmware: str
    vendor_id: str
    part_id: str
    board: str
    ports: tuple[Port, ...]


@parser("ibv_devinfo")
def devices(text: str) -> tuple[Device, ...]:
    """No device at all is an answer too: `No IB devices found`."""
    parts = re.split(r"^hca_id:\s*(\S+)\s*$", text, flags=re.MULTILINE)
    if len(parts) == 1 and text.strip() and "No IB devices found" not in text:
        raise ValueError("no hca_id in it")
    return tuple(_device(name, body) for name, body in zip(parts[1::2], parts[2::2], strict=True))


def _device(name: str, text: str) -> Device:
    head, *ports = re.split(r"^\s*port:\s*(\d+)\s*$", text, flags=re.MULTILINE)
    said = named_lines(head.splitlines())
    found = tuple(_port(int(number), body) for number, body in zip(ports[::2], ports[1::2], strict=True))
    return Device(
        name,
        said["transport"],
        said.get("fw_ver", ""),
        said.get("vendor_id", ""),
        said.get("vendor_part_id", ""),
        said.get("board_id", ""),
        found,
    )


def _port(number: int, text: str) -> Port:
    said = named_lines(text.splitlines())
    gids = tuple((int(each["index"]), each["gid"], (each["type"] or "").strip()) for each in GID.finditer(text))
    return Port(
        number,
        said["state"].split(" ")[0].removeprefix("PORT_"),
        _bytes(said["active_mtu"]),
        _bytes(said["max_mtu"]),
        said.get("link_layer", ""),
        said.get("active_speed", ""),
        said.get("active_width", ""),
        gids,
    )


def _bytes(text: str) -> int:
    """`4096 (5)`, or `invalid MTU (0)` of a port that is down."""
    return 0 if text.startswith("invalid") else int(text.partition(" ")[0])
