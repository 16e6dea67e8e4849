"""A vm lab without a machine: the real keeper loop and the real agent, which runs here instead of in a guest."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from harness.lab.network import netns
from harness.lab.state import SOCKET
from harness.vmlab.broker import Broker
from harness.vmlab.host import VmHost
from harness.vmlab.keeper import Keeper
from harness.vmlab.machines import Guest, Machines
from harness.vmlab.monitor import Monitor
from harness.vmlab.shape import Shape
from harness.vmlab.wire import WireControl, socket_pair

REPO = Path(__file__).parents[2]
AGENT = (
    "import os, sys; from harness.vmlab.inside.agent import Agent; port = int(sys.argv[1]);"
    "os.set_inheritable(port, False); Agent(port).serve({'rdma': []})"
)


@dataclass
class FakeWire:
    """Records what is asked of it."""

    asked: list[str] = field(default_factory=list)

    def ask(self, request: str) -> str:
        self.asked.append(request)
        return "{}" if request == "show" else "ok"

    def show(self) -> dict[str, dict[str, dict[str, int]]]:
        """Rates of ports, in either direction."""
        return {}


@dataclass
class FakeMonitor:
    """Records what is asked of QEMU."""

    asked: list[tuple[object, ...]] = field(default_factory=list)

    def set_link(self, device: str, up: bool) -> None:
        self.asked.append(("set_link", device, up))

    def ask(self, command: str, **arguments: object) -> object:
        self.asked.append((command, *arguments.items()))
        return {}


@dataclass
class Double:
    host: VmHost
    switch: VmHost
    agent: subprocess.Popen[bytes]
    wire: FakeWire
    monitor: FakeMonitor


@contextmanager
def double(folder: Path) -> Iterator[Double]:
    port, agent_fd = socket_pair(socket.SOCK_STREAM)
    env = {**os.environ, "PYTHONPATH": str(REPO)}
    agent = subprocess.Popen([sys.executable, "-c", AGENT, str(agent_fd)], pass_fds=[agent_fd], env=env)
    os.close(agent_fd)
    wire, monitor, middle = FakeWire(), FakeMonitor(), subprocess.Popen(["sleep", "600"])
    guest = Guest("h0", agent, os.pidfd_open(agent.pid), Broker("h0", port), cast(Monitor, monitor), folder / "console")
    machines = Machines({"h0": guest}, cast(WireControl, wire), middle, os.pidfd_open(middle.pid))
    listener = socket.socket(socket.AF_UNIX)
    with netns.working_in(folder):
        listener.bind(SOCKET)
    listener.listen(8)
    stop_read, stop_write = os.pipe()
    keeper = Keeper(Shape(hosts=1, nics=1), machines, listener, [stop_read])
    thread = threading.Thread(target=keeper.serve, args=(60.0,))
    thread.start()
    try:
        yield Double(VmHost("h0", folder), VmHost("switch", folder), agent, wire, monitor)
    finally:
        os.write(stop_write, b".")
        thread.join(60)
        machines.close()
        listener.close()
        for fd in (stop_read, stop_write, guest.pidfd, machines.wire_pidfd):
            os.close(fd)
