"""The processes of a vm lab: the wire, and one QEMU or User Mode Linux a guest, joined by sockets."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import LabError
from harness.lab.network import netns
from harness.vmlab.broker import Broker
from harness.vmlab.guest import Files, qemu_command
from harness.vmlab.image.build import Image
from harness.vmlab.monitor import Monitor
from harness.vmlab.shape import Shape, WirePort
from harness.vmlab.uml.cables import Cables
from harness.vmlab.uml.guest import uml_command
from harness.vmlab.uml.memory import folder_for
from harness.vmlab.wire import WireControl, socket_pair, wire_command

CONSOLE_LINES = 8


@dataclass
class Guest:
    """A running QEMU or User Mode Linux: its process, its agent, its monitor, and where its console is written."""

    name: str
    process: subprocess.Popen[bytes]
    pidfd: int
    broker: Broker
    monitor: Monitor | Cables
    console: Path

    def last_words(self) -> str:
        """The end of the console and of what its program said itself."""
        texts = [path.read_text(errors="replace") for path in (self.console, errors_of(self.console)) if path.exists()]
        return "\n".join(line for text in texts for line in text.splitlines()[-CONSOLE_LINES:])


@dataclass
class Machines:
    """All processes of a lab. They die with the process that started them, and with `close`."""

    guests: dict[str, Guest]
    wire: WireControl
    wire_process: subprocess.Popen[bytes]
    wire_pidfd: int

    def close(self) -> None:
        for process in (*(guest.process for guest in self.guests.values()), self.wire_process):
            process.kill()
        for process in (*(guest.process for guest in self.guests.values()), self.wire_process):
            process.wait()
        for guest in self.guests.values():
            guest.broker.close()


def errors_of(console: Path) -> Path:
    return console.with_suffix(".errors")


@dataclass(frozen=True)
class Made:
    """What guests are started from. `uml`: the kernel of guests of User Mode Linux; `folder` takes their pids."""

    image: Image
    logs: Path
    folder: Path
    share: Path | None
    ssh_key: str = ""
    uml: Path | None = None


def start(shape: Shape, made: Made, wire_program: Path) -> Machines:
    """Starts everything; nothing is left running when something cannot be started. Raises LabError."""
    pairs = {port: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for port in shape.ports()}
    started: list[subprocess.Popen[bytes]] = []
    try:
        link, control_fd = socket_pair(socket.SOCK_SEQPACKET)
        control = WireControl(link)
        ends = {port: pair[0].fileno() for port, pair in pairs.items()}
        wire_process = _start(wire_command(wire_program, control_fd, ends), [control_fd, *ends.values()], None)
        started.append(wire_process)
        os.close(control_fd)
        guests = {}
        for index, name in enumerate(shape.host_names()):
            nics = [pairs[port][1].fileno() for port in shape.ports_of(index)]
            guests[name] = _guest(shape, index, nics, made, control)
            started.append(guests[name].process)
    except BaseException:
        for process in started:
            process.kill()
            process.wait()
        raise
    finally:
        _close_all(pairs)
    return Machines(guests, control, wire_process, os.pidfd_open(wire_process.pid))


def _guest(shape: Shape, index: int, nics: list[int], made: Made, wire: WireControl) -> Guest:
    name = f"h{index}"
    console = made.logs / f"{name}.console"
    agent, agent_fd = socket_pair(socket.SOCK_STREAM)
    monitor, monitor_fd = socket_pair(socket.SOCK_STREAM)
    files = Files(agent_fd, monitor_fd, nics)
    process = _start_guest(shape, index, files, made, console)
    os.close(agent_fd)
    os.close(monitor_fd)
    pidfd = os.pidfd_open(process.pid)
    watched = Monitor(name, monitor) if made.uml is None else Cables(name, monitor, process, wire)
    return Guest(name, process, pidfd, Broker(name, agent), watched, console)


def _start_guest(shape: Shape, index: int, files: Files, made: Made, console: Path) -> subprocess.Popen[bytes]:
    rest: dict[str, Any] = {"image": made.image, "files": files, "share": made.share}
    if made.uml is None:
        command = qemu_command(shape, index, console=console, ssh_key=made.ssh_key, **rest)
        return _start(command, files.all(), errors_of(console))
    command = uml_command(shape, index, kernel=made.uml, folder=made.folder, **rest)
    where = {"TMPDIR": str(folder_for(shape.hosts * shape.memory_mb))}
    with console.open("wb") as output:
        return _start(command, files.all(), errors_of(console), output.fileno(), where)


def _start(
    command: list[str],
    fds: list[int],
    errors: Path | None,
    stdout: int = subprocess.DEVNULL,
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """A child that is killed when we end, however we end."""
    sink = errors.open("wb") if errors is not None else None
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            env={**os.environ, **(env or {})},
            stderr=sink if sink is not None else None,
            pass_fds=fds,
            preexec_fn=netns.die_with_parent,  # noqa: PLW1509 (the keeper has one thread)
            start_new_session=True,
        )
    except OSError as error:
        raise LabError(f"cannot start {command[0]}: {error.strerror}", "bash scripts/system-packages.sh vm") from error
    finally:
        if sink is not None:
            sink.close()


def _close_all(pairs: dict[WirePort, tuple[socket.socket, socket.socket]]) -> None:
    for pair in pairs.values():
        for end in pair:
            end.close()
