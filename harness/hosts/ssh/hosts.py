"""A host reached over SSH."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import IO

from harness.errors import CommandError, R2ccError, SshError
from harness.hosts.base import STDERR_LINES_QUOTED, Argv, Env, Limit, Process, Redirect, Result
from harness.hosts.commands import checked, last_lines, tail_of, timeout_error
from harness.hosts.ssh.command import CHUNK, Running, Sink
from harness.hosts.ssh.link import Link, lost
from harness.hosts.ssh.target import Target
from harness.hosts.through import ThroughCommands

LOST_EXIT_CODE = 255
"""Of a process whose host was lost, as `ssh` itself has it."""
SIGNAL_LIMIT_S = 5.0
SEND_SIGNAL = 'kill -s "$1" -- "-$2" 2>/dev/null || kill -s "$1" -- "$2"'
"""To the process group that sshd gave the command, so that nothing of it is left over."""


@contextmanager
def ssh_hosts(targets: Iterable[Target]) -> Iterator[dict[str, SshHost]]:
    """Hosts by name. Nothing connects yet; a jump host is connected to once for all; all is closed at the end."""
    jumps: dict[Target, Link] = {}

    def link(target: Target) -> Link:
        if target.jump is not None and target.jump not in jumps:
            jumps[target.jump] = link(target.jump)
        return Link(target, jumps[target.jump] if target.jump else None)

    made = {target.name: SshHost(target.name, link(target)) for target in targets}
    try:
        yield made
    finally:
        with ExitStack() as stack:
            for one in [*jumps.values(), *(host.link for host in made.values())]:
                stack.callback(one.close)


@dataclass(frozen=True)
class SshHost(ThroughCommands):
    """Commands share the host's connection, which opens at the first one and again after it was lost."""

    name: str
    link: Link

    def run(
        self, argv: Argv, *, env: Env = None, input: str | None = None, timeout_s: Limit = None, check: bool = True
    ) -> Result:
        """Runs a command to its end. CommandError if it cannot start, times out or (with `check`) exits non-zero;
        SshError when the host cannot be reached or is lost meanwhile."""
        started = time.monotonic()
        running = Running(self.link, argv, env)
        out, err = bytearray(), bytearray()
        try:
            running.feed((input or "").encode())
            ended = running.pump(out.extend, err.extend, timeout_s)
            if not ended:
                assert timeout_s is not None
                self._signal_group(running.pid, signal.SIGKILL)
                raise timeout_error(self.name, argv, timeout_s, err.decode(errors="replace"))
            code = running.exit_code()
        except KeyboardInterrupt:
            with suppress(R2ccError):
                self._signal_group(running.pid, signal.SIGKILL)
            raise
        finally:
            running.close()
        if code is None:
            raise lost(self.link.target, f"while it ran {argv[0]}")
        texts = (out.decode(errors="replace"), err.decode(errors="replace"))
        return checked(self.name, Result(tuple(argv), code, *texts, time.monotonic() - started), check)

    def spawn(
        self, argv: Argv, *, env: Env = None, stdout: Redirect = None, stderr: Redirect = None, stdin: Redirect = None
    ) -> SshProcess:
        """Starts a command. Not redirected, stdin is empty, stdout a binary pipe, stderr kept for `stderr_tail`.

        Redirects are of this machine: threads carry the streams to and from them.
        """
        return SshProcess(self, Running(self.link, argv, env), stdout, stderr, stdin)

    def close(self) -> None:
        self.link.close()

    def _signal_group(self, pid: int, signum: int) -> None:
        argv = ["sh", "-c", SEND_SIGNAL, "kill", signal.Signals(signum).name.removeprefix("SIG"), str(pid)]
        self.run(argv, timeout_s=SIGNAL_LIMIT_S, check=False)


class SshProcess(Process):
    """A command on a host. `pid` is its number there."""

    def __init__(self, host: SshHost, running: Running, stdout: Redirect, stderr: Redirect, stdin: Redirect) -> None:
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
        code, note = None, lost(self._host.link.target).message
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
        """To the command and what it started. Nothing happens when it has ended. SshError when the host is lost."""
        if self.poll() is None:
            self._host._signal_group(self.pid, signum)

    def stderr_tail(self, lines: int = STDERR_LINES_QUOTED) -> str:
        return last_lines(tail_of(self._errors, lines), lines)

    def close(self) -> None:
        """Kills it if it still runs and its host can be reached, and closes what we hold of it."""
        if self.poll() is None:
            with suppress(SshError, CommandError):
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
