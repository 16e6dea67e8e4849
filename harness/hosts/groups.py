"""Commands on this machine that start others, as make and git do: nothing of them outlives who gave them up."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from harness.hosts.base import Argv, Env, Redirect
from harness.hosts.commands import located, merged_env, start_error

HELD = (
    "sh", "-c", 'exec 3<&0; { cat <&3; kill -s KILL -- "-$$"; } >/dev/null 2>&1 & exec "$@" 3<&- </dev/null', "r2cc",
)  # fmt: skip
"""Before the words of a command: when our end of its input is closed, even by our own SIGKILL, its group is killed."""


def end_group(leader: int) -> None:
    """Kills all that a leader of a session has started and that still runs."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


@contextmanager
def held(argv: Argv, host: str, *, env: Env = None, output: Redirect = None) -> Iterator[subprocess.Popen[bytes]]:
    """A command with all that it starts; when the block has ended, or this process has, nothing of it runs any more.

    Its input is empty. CommandError when it cannot be started.
    """
    full = merged_env(env)
    words: dict[str, Any] = {"env": full, "stdin": subprocess.PIPE, "stdout": output, "stderr": output}
    try:
        child = subprocess.Popen([*HELD, *located(argv, full)], start_new_session=True, **words)
    except OSError as error:
        raise start_error(host, argv, error) from error
    with child:
        try:
            yield child
        finally:
            end_group(child.pid)
