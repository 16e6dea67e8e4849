"""What a host and a running command are to everyone else."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, runtime_checkable

STDERR_LINES_QUOTED = 8

Redirect = int | IO[bytes] | None
"""Where a stream goes: a file descriptor, an open file, or None for the default of `spawn`."""


Argv = Sequence[str]
Env = Mapping[str, str] | None
"""What is added to the environment."""
Limit = float | None
"""Seconds; None: none."""


@dataclass(frozen=True)
class Result:
    """What a finished command left behind. A process killed by signal N has `exit_code` -N, as in subprocess."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: str = ""
    stderr: str = ""
    elapsed_s: float = 0.0


class Process(Protocol):
    """A running command. `stdout` is a binary pipe unless it was redirected; `pid` is as this process sees it."""

    pid: int
    stdout: IO[bytes] | None

    def poll(self) -> int | None: ...
    def wait(self, timeout_s: float | None = None) -> int: ...
    def send_signal(self, signum: int) -> None: ...
    def stderr_tail(self, lines: int = STDERR_LINES_QUOTED) -> str: ...
    def close(self) -> None:
        """Kills it if it still runs, and closes what we hold of it. Safe to call twice."""

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@runtime_checkable
class Host(Protocol):
    """One machine, or something that stands for one."""

    @property
    def name(self) -> str: ...

    def run(
        self, argv: Argv, *, env: Env = None, input: str | None = None, timeout_s: Limit = None, check: bool = True
    ) -> Result: ...

    def spawn(
        self, argv: Argv, *, env: Env = None, stdout: Redirect = None, stderr: Redirect = None, stdin: Redirect = None
    ) -> Process: ...

    def put(self, local: Path, remote: str) -> None: ...
    def get(self, remote: str, local: Path) -> None: ...
    def read_text(self, path: str) -> str: ...


def spawn_held(host: Host, argv: Argv, env: Env = None, stderr: Redirect = None) -> tuple[Process, int]:
    """Starts a command whose input ends with this process, and the descriptor by which we write to it."""
    theirs, ours = os.pipe2(os.O_CLOEXEC)
    try:
        return host.spawn(argv, env=env, stdin=theirs, stderr=stderr), ours
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
