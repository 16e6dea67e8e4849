"""The middle: r2cc_wire, the guests' switches in one small process, and what is asked of it while it runs."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import BuildError, LabError
from harness.files.lock import exclusive
from harness.hosts import LocalHost
from harness.vmlab.shape import WirePort

COMPILE_LIMIT_S = 120.0
ANSWER_LIMIT_S = 2.0
MAX_ANSWER = 1 << 16
FLAGS = ("-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror")


def ensure_built(sources: Path, cache: Path) -> Path:
    """The program, compiled if its sources changed. It needs nothing but a compiler, so a lab needs no `build net`."""
    files = sorted([*sources.glob("*.cc"), *sources.glob("*.h")])
    digest = hashlib.sha256("\0".join([*FLAGS, *(file.name + file.read_text() for file in files)]).encode())
    program = cache / f"wire-{digest.hexdigest()[:16]}" / "r2cc_wire"
    with exclusive(cache / "wire.lock", "compiling the vm lab's switch"):
        if not program.is_file():
            program.parent.mkdir(parents=True, exist_ok=True)
            _compile([str(file) for file in files if file.suffix == ".cc"], program)
    return program


def _compile(sources: list[str], program: Path) -> None:
    with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
        part = Path(scratch) / program.name
        command = ["g++", *FLAGS, "-o", str(part), *sources]
        done = LocalHost().run(command, timeout_s=COMPILE_LIMIT_S, check=False)
        if done.exit_code:
            raise BuildError(f"r2cc_wire does not compile\n{done.stderr[-2000:]}")
        part.replace(program)


def wire_command(program: Path, control: int, ports: Mapping[WirePort, int], seed: int = 1) -> list[str]:
    """The command line; `ports` says through which inherited file each guest's NIC is reached."""
    words = [str(program), "--control", str(control), "--seed", str(seed)]
    for port, fd in ports.items():
        words += ["--port", f"{port.name},{port.rail},{port.mac},{fd}"]
    return words


class WireControl:
    """Requests to a running wire. Raises LabError when it is gone or does not understand."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        link.settimeout(ANSWER_LIMIT_S)

    def ask(self, request: str) -> str:
        try:
            self._link.send(request.encode())
            answer = self._link.recv(MAX_ANSWER).decode()
        except OSError as error:
            raise LabError(f"the lab's switch does not answer ({error})", "r2cc lab down, then up again") from error
        if not answer or answer.startswith("error: "):
            raise LabError(f"the lab's switch: {answer.removeprefix('error: ') or 'it is gone'}")
        return answer

    def show(self) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(self.ask("show"))
        return shown


def socket_pair(kind: socket.SocketKind) -> tuple[socket.socket, int]:
    """A pair for talking to a child: our end, and the child's as a descriptor that it may inherit."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    fd = theirs.detach()
    os.set_inheritable(fd, True)
    return ours, fd
