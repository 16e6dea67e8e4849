"""Copying files to and from a host through its commands' input and output: it needs nothing but a shell."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import IO

from harness.errors import CommandError
from harness.hosts.base import Host, Result
from harness.hosts.commands import command_error

COPY_LIMIT_S, READ_LIMIT_S = 300.0, 30.0
RECEIVE = (
    'set -e; mkdir -p -- "$(dirname -- "$1")"; part="$1.part-$$"; trap \'rm -f -- "$part"\' EXIT; cat >"$part"; '
    '[ "$(wc -c <"$part")" -eq "$3" ] || { rm -f -- "$part"; echo "only a part of the file arrived" >&2; exit 1; }; '
    'chmod -- "$2" "$part"; mv -f -- "$part" "$1"'
)
"""A fixed script; path, mode and size are its arguments. The target appears whole or not at all: a connection that is
lost ends the input as the end of the file does, and then nobody hears what is said either."""


class ThroughCommands:
    """What a host has that is reached by its commands alone."""

    def put(self: Host, local: Path, remote: str) -> None:
        """Copies content and mode."""
        try:
            found = local.stat()
            with local.open("rb") as source:
                words = ["sh", "-c", RECEIVE, "put", remote, f"{found.st_mode & 0o777:o}", str(found.st_size)]
                _copy(self, words, source)
        except OSError as error:
            message = f"{self.name}: cannot copy {local} to {remote}: {error.strerror}"
            raise CommandError(message, "check both paths") from error

    def get(self: Host, remote: str, local: Path) -> None:
        part = local.with_name(f"{local.name}.part")
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as target:
                _copy(self, ["cat", "--", remote], stdout=target)
            part.replace(local)
        except OSError as error:
            message = f"{self.name}: cannot copy {remote} to {local}: {error.strerror}"
            raise CommandError(message, "check both paths") from error
        finally:
            part.unlink(missing_ok=True)

    def read_text(self: Host, path: str) -> str:
        return self.run(["cat", "--", path], timeout_s=READ_LIMIT_S).stdout


def _copy(host: Host, argv: list[str], stdin: IO[bytes] | None = None, stdout: IO[bytes] | None = None) -> None:
    process = host.spawn(argv, stdin=stdin, stdout=stdout or subprocess.DEVNULL)
    try:
        code = process.wait(COPY_LIMIT_S)
        if code != 0:
            raise command_error(host.name, Result(tuple(argv), code, "", process.stderr_tail()))
    finally:
        process.close()
