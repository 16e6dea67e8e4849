"""What hosts share that are reached by a connection or a program of ours: threads carry a command's streams."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import IO, Protocol

from harness.errors import CommandError, R2ccError, ReachError, UsageError
from harness.hosts.base import STDERR_LINES_QUOTED, Argv, Env, Limit, Process, Redirect, Result
from harness.hosts.commands import checked, last_lines, tail_of, timeout_error
from harness.hosts.through import ThroughCommands

Sink = Callable[[bytes], None]
CHUNK = 65536
LOST_EXIT_CODE = 255
"""Of a process whose host was lost, as `ssh` itself has it."""
SIGNAL_LIMIT_S = 5.0
SEND_SIGNAL = 'kill -s "$1" -- "-$2" 2>/dev/null || kill -s "$1" -- "$2"'
"""To the process group that the command was given there, so that nothing of it is left over."""
START = (
    'while IFS= read -r _r2cc && [ -n "$_r2cc" ]; do export "$_r2cc"; done; '
    'PATH="$PATH:/usr/sbin:/sbin"; export PATH; '
    'if command -v "$1" >/dev/null 2>&1; then echo; echo "r2cc-pid $$"; exec "$@"; fi; '
    'echo; echo "r2cc-pid none"; exit 127'
)
"""A fixed script. The environment is read from its input, so that no other user of the host sees it in `ps`; what is to
run are its arguments. It says its number before it becomes the command; what a `.bashrc` prints comes before that."""
PID_LINE = re.compile(rb"(?:^|\n)r2cc-pid (\d+|none)\n")
MOST_NOISE = 65536
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def preamble(host: str, env: Mapping[str, str] | None) -> bytes:
    """The environment as lines, and an empty one. UsageError for what cannot be said so."""
    for name, value in (env or {}).items():
        if not NAME.fullmatch(name) or "\n" in value or "\0" in value:
            raise UsageError(f"{host}: {name!r} cannot be set there", "names are [A-Za-z_0-9]; values are one line")
    return "".join(f"{name}={value}\n" for name, value in (env or {}).items()).encode() + b"\n"


class Running(Protocol):
    """A command that was started: `pid` is its number there."""

    pid: int

    def write(self, chunks: Iterable[bytes]) -> None:
        """To its stdin, then the end of file. That it reads no more, or has ended, is told by its exit code."""

    def pump(self, out: Sink, err: Sink, timeout_s: float | None = None) -> bool:
        """Passes output on until the command ends. False: it still runs after `timeout_s`."""

    def exit_code(self) -> int | None:
        """As subprocess has it. None: the host was lost before it said it."""

    def close(self) -> None: ...


class RemoteHost(ThroughCommands, ABC):
    """A host of which a subclass says how a command is started there, and what it means that it is lost."""

    name: str

    @abstractmethod
    def _start(self, argv: Argv, env: Env) -> Running: ...

    @abstractmethod
    def lost(self, why: str = "") -> ReachError: ...

    def run(
        self, argv: Argv, *, env: Env = None, input: str | None = None, timeout_s: Limit = None, check: bool = True
    ) -> Result:
        """Runs a command to its end. CommandError if it cannot start, times out or (with `check`) exits non-zero;
        ReachError when the host cannot be reached or is lost meanwhile."""
        started = time.monotonic()
        running = self._start(argv, env)
        out, err = bytearray(), bytearray()
        try:
            _feed(running, (input or "").encode())
            ended = running.pump(out.extend, err.extend, timeout_s)
            if not ended:
                assert timeout_s is not None
                self.signal_group(running.pid, signal.SIGKILL)
                raise timeout_error(self.name, argv, timeout_s, err.decode(errors="replace"))
            code = running.exit_code()
        except KeyboardInterrupt:
            with suppress(R2ccError):
                self.signal_group(running.pid, signal.SIGKILL)
            raise
        finally:
            running.close()
        if code is None:
            raise self.lost(f"while it ran {argv[0]}")
        texts = (out.decode(errors="replace"), err.decode(errors="replace"))
        return checked(self.name, Result(tuple(argv), code, *texts, time.monotonic() - started), check)

    def spawn(
        self, argv: Argv, *, env: Env = None, stdout: Redirect = None, stderr: Redirect = None, stdin: Redirect = None
    ) -> RemoteProcess:
        """Starts a command. Not redirected, stdin is empty, stdout a binary pipe, stderr kept for `stderr_tail`.

        Redirects are of this machine: threads carry the streams to and from them.
        """
        return RemoteProcess(self, self._start(argv, env), stdout, stderr, stdin)

    def signal_group(self, pid: int, signum: int) -> None:
        argv = ["sh", "-c", SEND_SIGNAL, "kill", signal.Signals(signum).name.removeprefix("SIG"), str(pid)]
        self.run(argv, timeout_s=SIGNAL_LIMIT_S, check=False)


def _feed(running: Running, data: bytes) -> None:
    """In a thread of its own if that may have to wait."""
    if len(data) <= CHUNK:
        running.write([data])
    else:
        threading.Thread(target=running.write, args=([data],), name="stdin", daemon=True).start()


class RemoteProcess(Process):
    """A command on a host. `pid` is its number there."""

    def __init__(self, host: RemoteHost, running: Running, stdout: Redirect, stderr: Redirect, stdin: Redirect) -> None:
        self._host = host
        self._running = running
        self.pid = running.pid
        self._ended = threading.Event()
        self._exit_code: int | None = None
        self._errors = tempfile.TemporaryFile() if stderr is None else None  # noqa: SIM115 (lives as long as we do)
        pipe = os.pipe2(os.O_CLOEXEC) if stdout in (None, subprocess.PIPE) else None
        self.stdout: IO[bytes] | None = os.fdopen(pipe[0], "rb") if pipe else None
        out = pipe[1] if pipe else _own(stdout)
        if stderr == subprocess.STDOUT:
            err = None if out is None else os.dup(out)
        else:
            err = os.dup(self._errors.fileno()) if self._errors else _own(stderr)
        self._start("output", self._carry_out, out, err)
        self._start("input", self._carry_in, _own(stdin))

    def _start(self, what: str, work: object, *args: int | None) -> None:
        name = f"{self._host.name} {what}"
        threading.Thread(target=work, args=args, name=name, daemon=True).start()  # type: ignore[arg-type]

    def _carry_out(self, out: int | None, err: int | None) -> None:
        code, note = None, self._host.lost().message
        try:
            self._running.pump(_into(out), _into(err))
            code = self._running.exit_code()
        except OSError as error:
            note = f"{self._host.name}: its output cannot be written here: {error.strerror}"
        finally:
            if code is None and self._errors is not None:
                os.write(self._errors.fileno(), f"{note}\n".encode())
            self._exit_code = LOST_EXIT_CODE if code is None else code
            self._running.close()
            self._ended.set()
            for fd in (out, err):
                if fd is not None:
                    os.close(fd)

    def _carry_in(self, fd: int | None) -> None:
        try:
            self._running.write([] if fd is None else iter(lambda: os.read(fd, CHUNK), b""))
        finally:
            if fd is not None:
                os.close(fd)

    def poll(self) -> int | None:
        return self._exit_code if self._ended.is_set() else None

    def wait(self, timeout_s: float | None = None) -> int:
        """Exit code. Raises CommandError when the process still runs after `timeout_s` (it is left running)."""
        if not self._ended.wait(timeout_s):
            message = f"{self._host.name}: pid {self.pid} still runs after {timeout_s} s"
            raise CommandError(message, "wait longer, or kill it")
        assert self._exit_code is not None
        return self._exit_code

    def send_signal(self, signum: int) -> None:
        """To the command and what it started. Nothing happens when it has ended. ReachError when the host is lost."""
        if self.poll() is None:
            self._host.signal_group(self.pid, signum)

    def stderr_tail(self, lines: int = STDERR_LINES_QUOTED) -> str:
        return last_lines(tail_of(self._errors, lines), lines)

    def close(self) -> None:
        """Kills it if it still runs and its host can be reached, and closes what we hold of it."""
        if self.poll() is None:
            with suppress(ReachError, CommandError):
                self.kill()
            self._running.close()
        self._ended.wait(SIGNAL_LIMIT_S)
        for file in (self.stdout, self._errors):
            if file is not None:
                file.close()


def _own(redirect: Redirect) -> int | None:
    """A descriptor of our own for it; None: nothing, as for DEVNULL."""
    if redirect is None or redirect == subprocess.DEVNULL:
        return None
    return os.dup(redirect if isinstance(redirect, int) else redirect.fileno())


def _into(fd: int | None) -> Sink:
    """Writes all of it, or drops it where nobody reads any more. OSError when there is no room."""

    def write(data: bytes) -> None:
        rest = memoryview(data)
        with suppress(BrokenPipeError):
            while fd is not None and rest:
                rest = rest[os.write(fd, rest) :]

    return write
