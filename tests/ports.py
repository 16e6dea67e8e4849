"""Ports for the programs under test: no two tests that run now get the same one, and the kernel gives it to nobody.

A test that binds port 0, closes, and hands the number on has nothing: the next connection of any program may get it.
"""

from __future__ import annotations

import random
import socket
from contextlib import suppress
from pathlib import Path

WANTED = range(10_000, 20_000)
GIVEN = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""What the kernel chooses from when a program asks for any port, as every outgoing connection does."""


def free_port() -> int:
    """A port that nobody listens at, this test run's until the process ends. Raises OSError when none is left."""
    ports = choice()
    for port in random.SystemRandom().sample(ports, len(ports)):
        with suppress(OSError):
            hold(port)
            return port
    raise OSError(f"no port of {ports[0]} to {ports[-1]} is free")


def free_root() -> str:
    """ADDR:PORT where ranks can meet."""
    return f"127.0.0.1:{free_port()}"


def choice() -> list[int]:
    """All of them where the kernel was told to give any port: that is as good as it gets there."""
    lowest, highest = map(int, GIVEN.read_text().split())
    return [port for port in WANTED if not lowest <= port <= highest] or [*WANTED]


def hold(port: int) -> None:
    """Raises OSError when another test has it, or somebody listens.

    Held is a name, not the port, which the program under test binds. Names of abstract sockets belong to a network
    namespace, as ports do, and end with the process.
    """
    with socket.socket(socket.AF_UNIX) as name, socket.socket() as probe:
        name.bind(f"\0r2cc-test-port-{port}")
        probe.bind(("", port))
        name.detach()
