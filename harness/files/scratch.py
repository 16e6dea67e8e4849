"""A folder of one's own for a while. Whoever is killed leaves it behind, and the next one removes it."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.files.writing import told

FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def scratch(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """An empty folder in `parent` (the system's for temporary files), removed at the end with all that is in it.

    Its lock is the kernel's, and ends with this process: folders with the same prefix that nobody holds are removed.
    """
    where = parent or Path(tempfile.gettempdir())
    sweep(prefix, where)
    folder, held = _made(prefix, where)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            os.close(held)


def sweep(prefix: str, parent: Path) -> None:
    """Removes what those who were killed have left there."""
    for left in parent.glob(f"{prefix}*"):
        held = _held(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if held is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(held)


def _made(prefix: str, parent: Path) -> tuple[Path, int | None]:
    """The folder and its lock; one that somebody swept before it was locked is made again. None where the file system
    has no locks: nobody can lock, and so sweep, it there."""
    while True:
        with told(parent):
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        held = _held(folder, fcntl.LOCK_EX)
        if folder.exists():
            return folder, held
        if held is not None:
            os.close(held)


def _held(folder: Path, how: int) -> int | None:
    """Locked, if it is a folder of this user and nobody else holds it."""
    try:
        found = os.open(folder, FLAGS)
    except OSError:
        return None
    try:
        if os.fstat(found).st_uid == os.geteuid():
            fcntl.flock(found, how)
            return found
    except OSError:
        pass
    os.close(found)
    return None
