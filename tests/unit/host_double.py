"""A host for tests: records what it is asked to run and answers from a script."""

from __future__ import annotations

import fnmatch
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from harness.errors import CommandError
from harness.hosts.base import STDERR_LINES_QUOTED, Argv, Env, Limit, Process, Redirect, Result
from harness.hosts.commands import checked, last_lines


@dataclass
class FakeProcess(Process):
    """What FakeHost.spawn returns: it has already written `stdout` and ends when asked, or at once."""

    argv: tuple[str, ...]
    stdout: IO[bytes] | None
    exit_code: int = 0
    pid: int = 4242
    errors: str = ""
    signals: list[int] = field(default_factory=list)

    def poll(self) -> int | None:
        return self.exit_code

    def wait(self, timeout_s: float | None = None) -> int:
        return self.exit_code

    def send_signal(self, signum: int) -> None:
        self.signals.append(signum)

    def stderr_tail(self, lines: int = STDERR_LINES_QUOTED) -> str:
        return last_lines(self.errors, lines)

    def close(self) -> None:
        if self.stdout is not None:
            self.stdout.close()


Answer = Result | Callable[[tuple[str, ...]], Result]


@dataclass
class FakeHost:
    """Records every command and answers from a script, so that what builds commands is tested without a machine.

    `answers` maps a glob over the joined argv to a Result or a function of argv; the first match in order of insertion
    wins. Without a match the command succeeds silently, or fails the test when `strict`.
    """

    name: str = "fake"
    answers: dict[str, Answer] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    strict: bool = False
    commands: list[tuple[str, ...]] = field(default_factory=list)
    inputs: list[str | None] = field(default_factory=list)
    environments: list[dict[str, str]] = field(default_factory=list)
    spawned: list[FakeProcess] = field(default_factory=list)

    def answer(self, pattern: str, stdout: str = "", exit_code: int = 0, stderr: str = "") -> FakeHost:
        """Scripts one answer; returns self so that answers chain."""
        self.answers[pattern] = Result((), exit_code, stdout, stderr)
        return self

    def run(
        self, argv: Argv, *, env: Env = None, input: str | None = None, timeout_s: Limit = None, check: bool = True
    ) -> Result:
        return checked(self.name, self._answer(tuple(argv), env, input), check)

    def spawn(
        self, argv: Argv, *, env: Env = None, stdout: Redirect = None, stderr: Redirect = None, stdin: Redirect = None
    ) -> FakeProcess:
        result = self._answer(tuple(argv), env, None)
        process = FakeProcess(
            tuple(argv), io.BytesIO(result.stdout.encode()), result.exit_code, 4242 + len(self.spawned), result.stderr
        )
        self.spawned.append(process)
        return process

    def _answer(self, argv: tuple[str, ...], env: Env, input: str | None) -> Result:
        self.commands.append(argv)
        self.inputs.append(input)
        self.environments.append(dict(env or {}))
        line = " ".join(argv)
        for pattern, answer in self.answers.items():
            if fnmatch.fnmatchcase(line, pattern):
                found = answer(argv) if callable(answer) else answer
                return Result(argv, found.exit_code, found.stdout, found.stderr, found.elapsed_s)
        if self.strict:
            raise AssertionError(f"{self.name}: no answer scripted for: {line}")
        return Result(argv, 0)

    def put(self, local: Path, remote: str) -> None:
        self.files[remote] = local.read_text()

    def get(self, remote: str, local: Path) -> None:
        local.write_text(self.read_text(remote))

    def read_text(self, path: str) -> str:
        if path not in self.files:
            raise CommandError(f"{self.name}: cannot read {path}: No such file or directory", "check the path")
        return self.files[path]
