"""Where running labs are known: one private folder each, locked by the lab's keeper for as long as it lives.

The lock, not a process id, says whether a lab is alive: the kernel drops it however the keeper ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import LabError, UsageError
from harness.files.writing import told, write_whole

SOCKET = "agent.sock"
LOOK_S = 1.0
_LOCK, _STATE = "lock", "state.json"


def root() -> Path:
    """The folder of all labs of this user: under XDG_RUNTIME_DIR, else the cache folder, else a private one in tmp."""
    for base in _candidates():
        try:
            folder = base / "labs"
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        if folder.stat().st_uid == os.geteuid() and os.access(folder, os.W_OK):
            return folder
    raise LabError("no private folder for the lab's state", "set XDG_RUNTIME_DIR to a folder that you own")


def _candidates() -> Iterator[Path]:
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        yield Path(runtime, "r2cc")
    if cache := os.environ.get("XDG_CACHE_HOME"):
        yield Path(cache, "r2cc")
    if home := os.environ.get("HOME"):
        yield Path(home, ".cache", "r2cc")
    yield Path(tempfile.gettempdir(), f"r2cc-{os.geteuid()}")


@dataclass
class Claim:
    """A lab's folder, held by its keeper. `release` removes it; a keeper that is killed leaves it behind, unlocked."""

    folder: Path
    lock_fd: int

    def write(self, state: dict[str, Any]) -> None:
        write_whole(self.folder / _STATE, json.dumps(state))

    def release(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self.lock_fd)


def claim(name: str) -> Claim:
    """Makes the folder of a new lab. Raises UsageError when a lab of that name is alive, InfraError when the disk is
    full; a dead one's folder is taken over."""
    living()
    folder = root() / name
    with told(folder):
        taken = _try_for_a_moment(folder)
    if taken is None:
        raise UsageError(
            f"a lab named '{name}' is already up", f"r2cc lab down --name {name}, or choose another --name"
        )
    for leftover in (SOCKET, _STATE):
        (folder / leftover).unlink(missing_ok=True)
    return Claim(folder, taken)


def _try_for_a_moment(folder: Path) -> int | None:
    """Somebody who only looks whether the folder is stale holds its lock for a moment, too; a lab has a state file."""
    deadline = time.monotonic() + LOOK_S
    while (taken := try_lock(folder, create=True)) is None:
        if (folder / _STATE).exists() or time.monotonic() > deadline:
            return None
        time.sleep(0.01)
    return taken


def try_lock(folder: Path, *, create: bool = False) -> int | None:
    """The folder's lock, or None while its lab lives. Retries when the folder was removed in between."""
    while True:
        if create:
            folder.mkdir(mode=0o700, exist_ok=True)
        try:
            fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            if create:
                continue
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        if _same_file(folder / _LOCK, fd):
            return fd
        os.close(fd)


def _same_file(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False


def living() -> list[dict[str, Any]]:
    """The state of every living lab, by name; what dead ones left behind is removed on the way."""
    states = []
    for folder in sorted(path for path in root().iterdir() if path.is_dir()):
        with told(folder):
            fd = try_lock(folder)
        if fd is not None:
            Claim(folder, fd).release()
        elif (state := _read(folder)) is not None:
            states.append(state)
    return states


def _read(folder: Path) -> dict[str, Any] | None:
    """None while the lab is still coming up (or has just gone)."""
    try:
        state: dict[str, Any] = json.loads((folder / _STATE).read_text())
    except (OSError, ValueError):
        return None
    return {**state, "folder": str(folder)}
