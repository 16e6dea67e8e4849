"""Commands that talk to the network: bounded in time, and nothing of them is left when they are given up."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.errors import SourceError
from harness.hosts.commands import indent, last_lines
from harness.hosts.groups import end_group


def run_bounded(
    argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> str:
    """Output of a command that may start helpers of its own (git, apt).

    A group of its own is what lets us end those too, after timeout_s or Ctrl-C: a helper stuck in connect() would hold
    the pipe for minutes. Raises SourceError when the command fails, is missing, or takes too long.
    """
    try:
        child = subprocess.Popen(
            argv,
            cwd=cwd,
            env={**os.environ, "LC_ALL": "C.UTF-8", **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise SourceError(f"cannot start {argv[0]}: {error.strerror}", f"install {argv[0]}") from error
    with child:
        try:
            stdout, stderr = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise SourceError(f"gave up after {timeout_s:g} s: {shlex.join(argv)}", "check the network") from error
        finally:
            end_group(child.pid)
    if child.returncode != 0:
        raise SourceError(f"failed with exit code {child.returncode}: {shlex.join(argv)}\n{indent(last_lines(stderr))}")
    return stdout
