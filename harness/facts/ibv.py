"""`ibv_devinfo -v`: RDMA devices as libibverbs sees them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.facts.base import named_lines, parser


@dataclass(frozen=True)
class Port:
    """MTU in bytes; 0: the port tells none."""

    number: int
    active_mtu: int


@dataclass(frozen=True)
class Device:
    name: str
    ports: tuple[Port, ...]


@parser("ibv_devinfo")
def devices(text: str) -> tuple[Device, ...]:
    """No device at all is an answer too: `No IB devices found`."""
    parts = re.split(r"^hca_id:\s*(\S+)\s*$", text, flags=re.MULTILINE)
    if len(parts) == 1 and text.strip() and "No IB devices found" not in text:
        raise ValueError("no hca_id in it")
    return tuple(Device(name, _ports(body)) for name, body in zip(parts[1::2], parts[2::2], strict=True))


def _ports(text: str) -> tuple[Port, ...]:
    _, *parts = re.split(r"^\s*port:\s*(\d+)\s*$", text, flags=re.MULTILINE)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return tuple(Port(int(number), _bytes(named_lines(body.splitlines())["active_mtu"])) for number, body in pairs)


def _bytes(text: str) -> int:
    """`4096 (5)`, or `invalid MTU (0)` of a port that is down."""
    return 0 if text.startswith("invalid") else int(text.partition(" ")[0])
