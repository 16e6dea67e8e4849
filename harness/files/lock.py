"""One at a time, across processes. The kernel drops the lock with its owner, however that one ends."""

from __future__ import annotations

import fcntl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from harness.errors import InfraError

POLL_S = 0.1


@contextmanager
def exclusive(path: Path, what: str, timeout_s: float = 600.0) -> Iterator[None]:
    """Hold the lock file at path; `what` is named to whoever has to wait. Raises InfraError after timeout_s."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        if not _try(file):
            print(f"waiting for another r2cc to finish {what} ...", file=sys.stderr, flush=True)
            _wait(file, path, what, timeout_s)
        yield


def _wait(file: IO[str], path: Path, what: str, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not _try(file):
        if time.monotonic() > deadline:
            hint = f"`fuser {path}` names the process that holds it"
            raise InfraError(f"another process has been {what} for over {timeout_s:g} s", hint=hint)
        time.sleep(POLL_S)


def _try(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
