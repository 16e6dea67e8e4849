"""Pid 1 of a guest: starts commands for the keeper, carries their input and output, and reports how they end.

When it ends, the kernel panics and QEMU exits: a guest without its agent is of no use to anybody.
"""

from __future__ import annotations

import errno
import json
import os
import selectors
import shutil
import signal
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.vmlab.inside.frames import CHUNK, WINDOW, Kind, Parser, frame

PORT_NAME = "r2cc.agent"
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "HOME": "/root", "LANG": "C.UTF-8"}
COUNT = struct.Struct("<Q")
OFFSET = struct.Struct("<q")
CLONE_NEWTIME = 0x80
SAME_CLOCK_NS = 2_000_000
"""What exchanges of clocks that are the same may differ by on a busy machine."""
HOST_KEY = Path("/run/ssh_host_key.pub")


class Command:
    """One command: its pipes, what of its input waits, and how much of its output may still be sent."""

    def __init__(self, number: int, pid: int, stdin: int, outputs: dict[int, Kind]) -> None:
        self.number = number
        self.pid = pid
        self.stdin: int | None = stdin
        self.outputs = outputs
        self.waiting = bytearray()
        self.input_ended = False
        self.credit = WINDOW
        self.exit_code: int | None = None


class Agent:
    """Serves one keeper over one port until the port is gone."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._parser = Parser()
        self._commands: dict[int, Command] = {}
        self._unsent = bytearray()
        self._selector = selectors.PollSelector()
        self._wakeup = _child_signals()
        self._watched: dict[int, int] = {}
        self._offset_ns = 0
        os.set_blocking(port, False)

    def serve(self, facts: dict[str, Any]) -> None:
        """The event loop; returns when the keeper's side is closed."""
        self._selector.register(self._wakeup, selectors.EVENT_READ, self._reap)
        self._send(Kind.READY, 0, json.dumps(facts).encode())
        while True:
            self._watch()
            for key, _events in self._selector.select():
                if key.fd == self._port:
                    if not self._serve_port():
                        return
                else:
                    key.data()

    def _watch(self) -> None:
        """Asks for exactly what can be used now: a full wire or a command without credit is not read from."""
        wanted = {self._port: selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)}
        handlers: dict[int, Any] = {self._port: None}
        for command in self._commands.values():
            if command.stdin is not None and (command.waiting or command.input_ended):
                wanted[command.stdin] = selectors.EVENT_WRITE
                handlers[command.stdin] = lambda command=command: self._feed(command)
            for fd in command.outputs if command.credit > 0 and len(self._unsent) < WINDOW else ():
                wanted[fd] = selectors.EVENT_READ
                handlers[fd] = lambda command=command, fd=fd: self._forward(command, fd)
        for fd in self._watched.keys() - wanted.keys():
            self._selector.unregister(fd)
        for fd, events in wanted.items():
            if fd not in self._watched:
                self._selector.register(fd, events, handlers[fd])
            elif self._watched[fd] != events:
                self._selector.modify(fd, events, handlers[fd])
        self._watched = wanted

    def _serve_port(self) -> bool:
        with suppress(BlockingIOError):
            if self._unsent:
                del self._unsent[: os.write(self._port, self._unsent[:CHUNK])]
        try:
            data = os.read(self._port, CHUNK)
        except BlockingIOError:
            return True
        for kind, number, payload in self._parser.feed(data):
            self._handle(kind, number, payload)
        return bool(data)

    def _send(self, kind: Kind, number: int, payload: bytes = b"") -> None:
        self._unsent += frame(kind, number, payload)

    def _handle(self, kind: Kind, number: int, payload: bytes) -> None:
        if kind is Kind.START:
            self._start(number, payload)
        elif kind is Kind.CLOCK:
            self._send(Kind.CLOCK, number, OFFSET.pack(time.monotonic_ns() + self._offset_ns))
        elif kind is Kind.SET_CLOCK:
            self._set_clock(OFFSET.unpack(payload)[0])
        elif (command := self._commands.get(number)) is not None:
            self._control(command, kind, payload)

    def _control(self, command: Command, kind: Kind, payload: bytes) -> None:
        if kind is Kind.STDIN:
            command.waiting += payload
        elif kind is Kind.STDIN_END:
            command.input_ended = True
        elif kind is Kind.CREDIT:
            command.credit += COUNT.unpack(payload)[0]
            self._finish(command)
        elif kind is Kind.SIGNAL and command.exit_code is None:
            with suppress(ProcessLookupError):
                os.kill(command.pid, payload[0])
        elif kind is Kind.DROP:
            with suppress(ProcessLookupError):
                os.killpg(command.pid, signal.SIGKILL)
            self._forget(command)

    def _start(self, number: int, payload: bytes) -> None:
        try:
            request = json.loads(payload)
            command = _spawn(number, request["argv"], {**ENVIRONMENT, **request["env"]})
        except (OSError, ValueError, KeyError) as error:
            code, text = (error.errno, error.strerror) if isinstance(error, OSError) else (errno.EINVAL, repr(error))
            self._send(Kind.REFUSED, number, json.dumps({"errno": code, "error": text}).encode())
            return
        self._commands[number] = command
        self._send(Kind.STARTED, number, json.dumps({"pid": command.pid}).encode())

    def _set_clock(self, offset_ns: int) -> None:
        """Commands from here on have a CLOCK_MONOTONIC that is ahead of the guest's own by so much."""
        if abs(offset_ns) < SAME_CLOCK_NS:  # User Mode Linux's is the keeper's own; it has no time namespaces
            self._send(Kind.SET_CLOCK, 0)
            return
        try:
            shift_monotonic(offset_ns)
        except (OSError, AttributeError) as error:
            self._send(Kind.SET_CLOCK, 0, str(error).encode())
            return
        self._offset_ns = offset_ns
        self._send(Kind.SET_CLOCK, 0)

    def _feed(self, command: Command) -> None:
        """Passes input on; the end of the input once all of it has gone, or when nobody reads it any more."""
        if command.stdin is None:
            return
        try:
            written = os.write(command.stdin, command.waiting[:CHUNK]) if command.waiting else 0
        except BlockingIOError:
            return
        except OSError:  # the command has closed its input: what comes is thrown away
            written = len(command.waiting)
            command.input_ended = True
        del command.waiting[:written]
        if written:
            self._send(Kind.CREDIT, command.number, COUNT.pack(written))
        if command.input_ended and not command.waiting:
            self._close(command.stdin)
            command.stdin = None

    def _forward(self, command: Command, fd: int) -> bool:
        """Sends what one of a command's pipes holds; False when there is nothing now."""
        if fd not in command.outputs or command.credit <= 0:
            return False
        try:
            data = os.read(fd, min(CHUNK, command.credit))
        except BlockingIOError:
            return False
        if not data:
            self._close(fd)
            del command.outputs[fd]
            return False
        command.credit -= len(data)
        self._send(command.outputs[fd], command.number, data)
        return True

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            self._wakeup.recv(4096)
        for pid, status in _ended_children():
            command = next((each for each in self._commands.values() if each.pid == pid), None)
            if command is not None:
                command.exit_code = os.waitstatus_to_exitcode(status)
                self._finish(command)

    def _finish(self, command: Command) -> None:
        """Reports the end once all that the command wrote is on its way; its orphans may write on, unheard."""
        if command.exit_code is None:
            return
        for fd in list(command.outputs):
            while self._forward(command, fd):
                pass
        if command.credit > 0:
            self._send(Kind.EXIT, command.number, json.dumps({"exit_code": command.exit_code}).encode())
            self._forget(command)

    def _forget(self, command: Command) -> None:
        self._commands.pop(command.number, None)
        for fd in (command.stdin, *command.outputs):
            if fd is not None:
                self._close(fd)
        command.stdin = None
        command.outputs = {}

    def _close(self, fd: int) -> None:
        """Stops watching it first: the next command will be given the same number."""
        if self._watched.pop(fd, None) is not None:
            self._selector.unregister(fd)
        os.close(fd)


def _spawn(number: int, argv: list[str], env: dict[str, str]) -> Command:
    """Starts a command in a process group of its own, with pipes for all three of its streams."""
    program = shutil.which(argv[0], path=env["PATH"]) or argv[0]
    pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
    theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
    ours = [pipes[0][1], pipes[1][0], pipes[2][0]]
    try:
        pid = os.posix_spawn(
            program,
            argv,
            env,
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(theirs)],
            setpgroup=0,
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM],
        )
    except BaseException:
        for fd in ours:
            os.close(fd)
        raise
    finally:
        for fd in theirs:
            os.close(fd)
    for fd in ours:
        os.set_blocking(fd, False)
    return Command(number, pid, ours[0], {ours[1]: Kind.STDOUT, ours[2]: Kind.STDERR})


def _child_signals() -> socket.socket:
    """A socket that becomes readable when a child ends. As pid 1 we inherit orphans too, and reap them."""
    readable, writable = socket.socketpair()
    readable.setblocking(False)
    writable.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(writable.detach(), warn_on_full_buffer=False)
    return readable


def _ended_children() -> Iterator[tuple[int, int]]:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def shift_monotonic(offset_ns: int) -> None:
    """Puts our children into a time namespace (time_namespaces(7)), so that their times are those of the lab's machine.

    Raises OSError where the kernel has none, or when one was made before.
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWTIME) != 0:
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWTIME)")
    seconds, nanoseconds = divmod(offset_ns, 1_000_000_000)
    lines = "".join(f"{clock} {seconds} {nanoseconds}\n" for clock in ("monotonic", "boottime"))
    Path("/proc/self/timens_offsets").write_text(lines)


def find_port(name: str, folder: Path = Path("/sys/class/virtio-ports")) -> Path:
    """The device of the virtio-serial port that QEMU gave `name`. Raises LookupError."""
    for entry in folder.iterdir():
        if (entry / "name").read_text().strip() == name:
            return Path("/dev", entry.name)
    raise LookupError(f"no virtio-serial port {name}")


def open_port() -> int:
    """The wire to the keeper: QEMU's named port; User Mode Linux has none, but serial ones."""
    if Path("/sys/class/virtio-ports").is_dir():
        return os.open(find_port(PORT_NAME), os.O_RDWR | os.O_CLOEXEC)
    import tty

    port = os.open("/dev/ttyS0", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    tty.setraw(port)
    return port


def facts() -> dict[str, Any]:
    """What the keeper is told once the guest is ready."""
    return {
        "kernel": os.uname().release,
        "nics": sorted(path.name for path in Path("/sys/class/net").iterdir() if path.name != "lo"),
        "rdma": sorted(path.name for path in Path("/sys/class/infiniband").iterdir()),
        "monotonic_ns": time.monotonic_ns(),
        "ssh_host_key": HOST_KEY.read_text().strip() if HOST_KEY.exists() else None,
    }


def main() -> None:
    Agent(open_port()).serve(facts())


if __name__ == "__main__":
    main()
