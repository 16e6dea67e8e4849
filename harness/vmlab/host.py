"""A guest as a Host: commands run through its agent, files go through its commands' input and output."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import CommandError
from harness.hosts.base import Result
from harness.hosts.commands import command_error
from harness.lab.client import AgentHost

COPY_LIMIT_S = 300.0
RECEIVE = 'set -e; mkdir -p "$(dirname "$1")"; cat >"$1.part-$$"; chmod "$2" "$1.part-$$"; mv -f "$1.part-$$" "$1"'
"""A fixed script; path and mode are its arguments. The target appears whole or not at all."""


@dataclass(frozen=True)
class VmHost(AgentHost):
    """One guest, or the lab's `switch`. Its files are its own, but for the checkout, which it sees read-only."""

    def put(self, local: Path, remote: str) -> None:
        """Copies content and mode."""
        try:
            mode = f"{local.stat().st_mode & 0o777:o}"
            with local.open("rb") as source:
                self._copy(["sh", "-c", RECEIVE, "put", remote, mode], stdin=source)
        except OSError as error:
            message = f"{self.name}: cannot copy {local} to {remote}: {error.strerror}"
            raise CommandError(message, "check both paths") from error

    def get(self, remote: str, local: Path) -> None:
        part = local.with_name(f"{local.name}.part")
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as target:
                self._copy(["cat", "--", remote], stdout=target)
            part.replace(local)
        except OSError as error:
            message = f"{self.name}: cannot copy {remote} to {local}: {error.strerror}"
            raise CommandError(message, "check both paths") from error
        finally:
            part.unlink(missing_ok=True)

    def read_text(self, path: str) -> str:
        return self.run(["cat", "--", path], timeout_s=30.0).stdout

    def _copy(
        self, argv: list[str], *, stdin: io.BufferedIOBase | None = None, stdout: io.BufferedIOBase | None = None
    ) -> None:
        process = self.spawn(argv, stdin=stdin, stdout=stdout or subprocess.DEVNULL)  # type: ignore[arg-type]
        try:
            code = process.wait(COPY_LIMIT_S)
            if code != 0:
                raise command_error(self.name, Result(tuple(argv), code, "", process.stderr_tail()))
        finally:
            process.close()

    def _surroundings(self, env: Mapping[str, str] | None) -> dict[str, Any]:
        """Only what was asked for: nothing of this machine's environment means anything in a guest."""
        return {"env": dict(env or {})}
