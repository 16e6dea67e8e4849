"""What hosts behind an agent share: a lab's keeper or pid 1 starts the command and reports its end over a socket."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import subprocess
import tempfile
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar

from harness.errors import CommandError, LabError
from harness.hosts.base import STDERR_LINES_QUOTED, Argv, Env, Limit, Process, Redirect, Result
from harness.hosts.commands import checked, start_error, tail_of, timeout_error
from harness.lab import wire
from harness.lab.state import SOCKET

LOST_WITH_LAB = -signal.SIGKILL


class AgentProcess(Process):
    """A command that runs in the lab. It ends with the lab, and when this process (its client) ends or `close`s it."""

    def __init__(self, host: str, link: socket.socket, pid: int) -> None:
        self._host = host
        self._link = link
        self._exit_code: int | None = None
        self._errors: IO[bytes] | None = None
        self.pid = pid
        self.stdout: IO[bytes] | None = None

    def poll(self) -> int | None:
        """The exit code, or None while it runs; -9 also when the lab died under it."""
        if self._exit_code is None and _readable(self._link, 0.0):
            self._finish()
        return self._exit_code

    def wait(self, timeout_s: float | None = None) -> int:
        """Exit code. Raises CommandError when the process still runs after `timeout_s` (it is left running)."""
        if self._exit_code is None and not _readable(self._link, timeout_s):
            raise CommandError(
                f"{self._host}: pid {self.pid} still runs after {timeout_s} s", "wait longer, or kill it"
            )
        code = self.poll()
        assert code is not None
        return code

    def _finish(self) -> None:
        try:
            received = wire.receive(self._link)
        except OSError:
            received = None
        self._exit_code = LOST_WITH_LAB if received is None else int(received[0]["exit_code"])
        self._release()

    def send_signal(self, signum: int) -> None:
        """To the process itself, never to a reused number. Nothing happens when it has ended."""
        if self.poll() is None:
            with suppress(OSError):
                wire.send(self._link, {"signal": signum})

    def _release(self) -> None:
        self._link.close()

    def stderr_tail(self, lines: int = STDERR_LINES_QUOTED) -> str:
        return tail_of(self._errors, lines)

    def close(self) -> None:
        """Ends it with its process group if it still runs, and closes what we hold. Safe to call twice."""
        if self._exit_code is None:
            self._exit_code = LOST_WITH_LAB
            self._release()
        for file in (self.stdout, self._errors):
            if file is not None:
                file.close()

    def __del__(self) -> None:
        self.close()


@dataclass(frozen=True)
class AgentHost(ABC):
    """One host of a lab. What a command is given, and how it is held, differs by the kind of lab."""

    patience: ClassVar[float] = 1.0
    """How many times longer than elsewhere a command of `run` may take."""

    name: str
    folder: Path
    _processes: weakref.WeakSet[AgentProcess] = field(default_factory=weakref.WeakSet, repr=False, compare=False)

    def run(
        self, argv: Argv, *, env: Env = None, input: str | None = None, timeout_s: Limit = None, check: bool = True
    ) -> Result:
        """Runs a command to its end. CommandError if it cannot start, times out or (with `check`) exits non-zero."""
        started = time.monotonic()
        timeout_s = None if timeout_s is None else timeout_s * self.patience
        fds = [_memory("stdin", input or ""), _memory("stdout"), _memory("stderr")]
        try:
            process = self._start(argv, env, fds)
            try:
                exit_code = process.wait(timeout_s)
            except CommandError as error:
                assert timeout_s is not None
                raise timeout_error(self.name, argv, timeout_s, _text(fds[2])) from error
            finally:
                process.close()
            result = Result(tuple(argv), exit_code, _text(fds[1]), _text(fds[2]), time.monotonic() - started)
        finally:
            for fd in fds:
                os.close(fd)
        return checked(self.name, result, check)

    def spawn(
        self, argv: Argv, *, env: Env = None, stdout: Redirect = None, stderr: Redirect = None, stdin: Redirect = None
    ) -> AgentProcess:
        """Starts a command. Not redirected, stdout is a binary pipe and stderr is kept for `stderr_tail`.

        Keep the returned object: when it is garbage collected the command is ended.
        """
        pipe = os.pipe2(os.O_CLOEXEC) if stdout in (None, subprocess.PIPE) else None
        errors = tempfile.TemporaryFile() if stderr is None else None  # noqa: SIM115 (lives as long as the process)
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        out = pipe[1] if pipe else _fd(stdout, null, null)
        err = errors.fileno() if errors else _fd(stderr, null, out)
        try:
            process = self._start(argv, env, [_fd(stdin, null, null), out, err])
        except BaseException:
            if pipe:
                os.close(pipe[0])
            if errors:
                errors.close()
            raise
        finally:
            os.close(null)
            if pipe:
                os.close(pipe[1])
        process.stdout = os.fdopen(pipe[0], "rb") if pipe else None
        process._errors = errors
        self._processes.add(process)
        return process

    def _start(self, argv: Argv, env: Env, fds: list[int]) -> AgentProcess:
        if not argv:
            raise CommandError(f"{self.name}: an empty command was given", "give a program and its arguments")
        request = {"host": self.name, "argv": list(argv), **self._surroundings(env)}
        link = self._connect()
        try:
            wire.send(link, request, fds)
            received = wire.receive(link)
        except OSError as error:
            link.close()
            raise LabError(f"{self.name}: the lab went away ({error})", "r2cc lab status") from error
        if received is None or "errno" in received[0]:
            link.close()
            if received is None:
                raise LabError(f"{self.name}: the lab went away", "r2cc lab status")
            raise start_error(self.name, argv, OSError(received[0]["errno"], received[0]["error"]))
        return self._held(link, *received)

    @abstractmethod
    def _surroundings(self, env: Env) -> dict[str, Any]:
        """What the agent is told besides the command."""

    def _held(self, link: socket.socket, answer: Mapping[str, Any], fds: list[int]) -> AgentProcess:
        """The started command, from the agent's answer."""
        return AgentProcess(self.name, link, int(answer["pid"]))

    def _connect(self) -> socket.socket:
        link = socket.socket(socket.AF_UNIX)
        try:
            folder = os.open(self.folder, os.O_PATH | os.O_CLOEXEC)
            try:
                link.connect(f"/proc/self/fd/{folder}/{SOCKET}")
            finally:
                os.close(folder)
        except OSError as error:
            link.close()
            raise LabError(f"{self.name}: its lab is not up", "r2cc lab status shows which labs are up") from error
        return link

    def close(self) -> None:
        """Ends every command of ours that still runs on this host."""
        for process in list(self._processes):
            process.close()


def _readable(link: socket.socket, timeout_s: float | None) -> bool:
    poll = select.poll()
    poll.register(link, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))


def _fd(target: Redirect, null: int, out: int) -> int:
    """The descriptor that a redirect means, subprocess.DEVNULL and subprocess.STDOUT included."""
    if target in (None, subprocess.DEVNULL):
        return null
    if target == subprocess.STDOUT:
        return out
    return target if isinstance(target, int) else target.fileno()


def _memory(name: str, content: str = "") -> int:
    """An anonymous file in memory: with it a command's output needs no pumping and can never block the command."""
    fd = os.memfd_create(name)
    if content:
        os.write(fd, content.encode())
        os.lseek(fd, 0, os.SEEK_SET)
    else:
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
    return fd


def _text(fd: int) -> str:
    size = os.fstat(fd).st_size
    return os.pread(fd, size, 0).decode(errors="replace")
