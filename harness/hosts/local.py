"""This machine."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness.errors import CommandError
from harness.hosts.base import STDERR_LINES_QUOTED, Argv, Env, Limit, Process, Redirect, Result
from harness.hosts.commands import (
    checked,
    copy_file,
    located,
    merged_env,
    read_file,
    start_error,
    tail_of,
    timeout_error,
)
from harness.hosts.groups import end_group


class LocalProcess(Process):
    """A child of ours. stderr goes to an unlinked file when not redirected, so a chatty rank can never block on it."""

    def __init__(self, popen: subprocess.Popen[bytes], host: str, errors: IO[bytes] | None) -> None:
        self._popen = popen
        self._host = host
        self._errors = errors
        self.pid, self.stdout = popen.pid, popen.stdout

    def poll(self) -> int | None:
        return self._popen.poll()

    def wait(self, timeout_s: float | None = None) -> int:
        """Exit code. Raises CommandError when the process still runs after `timeout_s` (it is left running)."""
        try:
            return self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            message = f"{self._host}: pid {self.pid} still runs after {timeout_s} s"
            raise CommandError(message, "wait longer, or kill it") from error

    def send_signal(self, signum: int) -> None:
        self._popen.send_signal(signum)

    def stderr_tail(self, lines: int = STDERR_LINES_QUOTED) -> str:
        return tail_of(self._errors, lines)

    def close(self) -> None:
        """Kills it if it still runs, and closes what we hold of it."""
        if self.poll() is None:
            self.kill()
            self._popen.wait()
        self._close_files()

    def _close_files(self) -> None:
        for file in (self.stdout, self._errors):
            if file is not None:
                file.close()

    def __del__(self) -> None:
        self._close_files()


def _ran(argv: Argv, env: Mapping[str, str], input: str | None, timeout_s: Limit) -> tuple[int, bytes, bytes]:
    """(exit code, stdout, stderr). Given up, by a time limit or Ctrl-C, it is ended with all that it has started."""
    stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env=env, stdin=stdin, stdout=pipe, stderr=pipe, start_new_session=True) as child:
        try:
            said = child.communicate(None if input is None else input.encode(), timeout_s)
        except BaseException:
            end_group(child.pid)
            raise
        return child.returncode, *said


@dataclass(frozen=True)
class LocalHost:
    """This machine."""

    name: str = "localhost"

    def run(
        self, argv: Argv, *, env: Env = None, input: str | None = None, timeout_s: Limit = None, check: bool = True
    ) -> Result:
        """Runs a command to its end. CommandError if it cannot start, times out or (with `check`) exits non-zero."""
        started = time.monotonic()
        full = merged_env(env)
        try:
            code, stdout, stderr = _ran(located(argv, full), full, input, timeout_s)
        except subprocess.TimeoutExpired as error:
            said = (error.stderr or b"").decode(errors="replace")
            raise timeout_error(self.name, argv, error.timeout, said) from error
        except OSError as error:
            raise start_error(self.name, argv, error) from error
        texts = (stdout.decode(errors="replace"), stderr.decode(errors="replace"))
        return checked(self.name, Result(tuple(argv), code, *texts, time.monotonic() - started), check)

    def spawn(
        self, argv: Argv, *, env: Env = None, stdout: Redirect = None, stderr: Redirect = None, stdin: Redirect = None
    ) -> LocalProcess:
        """Starts a command. Not redirected, stdin is empty, stdout a binary pipe, stderr kept for `stderr_tail`."""
        full = merged_env(env)
        errors = tempfile.TemporaryFile() if stderr is None else None  # noqa: SIM115 (lives as long as the process)
        try:
            popen = subprocess.Popen(
                located(argv, full),
                env=full,
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=subprocess.PIPE if stdout is None else stdout,
                stderr=errors if stderr is None else stderr,
            )
        except OSError as error:
            if errors is not None:
                errors.close()
            raise start_error(self.name, argv, error) from error
        return LocalProcess(popen, self.name, errors)

    def put(self, local: Path, remote: str) -> None:
        copy_file(self.name, str(local), remote)

    def get(self, remote: str, local: Path) -> None:
        copy_file(self.name, remote, str(local))

    def read_text(self, path: str) -> str:
        return read_file(self.name, path)
