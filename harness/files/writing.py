"""Files written whole or not at all, with an error that names the path: the operating system's own does not."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.errors import InfraError, R2ccError, UsageError

FULL = {errno.ENOSPC: "no space is left on the disk", errno.EDQUOT: "your quota of the disk is used up"}
LEAST_ROOM = 16384
"""Bytes. Any run writes more."""
OF_THE_MACHINE = (*FULL, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE)


def write_whole(path: Path, content: str | bytes) -> Path:
    """A reader, a full disk or a kill never leaves half a file. Makes the folder; returns the path. A pipe or a device
    is written to as it is.

    UsageError when it cannot be written there, InfraError when the disk is full or fails.
    """
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        with told(path):
            path.write_bytes(data)
        return path
    part = path.with_name(f".{path.name[:200]}.{os.getpid()}.part")
    with told(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_bytes(data)
            part.replace(path)
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)
    return path


def check_writable(path: Path) -> None:
    """Before work that would be lost else: the errors of `write_whole`; leaves nothing behind."""
    with told(path):
        if path.is_dir():
            raise UsageError(f"{path}: it is a folder", "name a file")
        if path.is_file() or not path.exists():  # else it is a pipe or a device
            try_file(path.parent, path.name)


def try_file(folder: Path, name: str) -> None:
    """Raises the OSError that a file in that folder would meet, and leaves nothing.

    It is tried beside the folders that are missing, never with them: another run may be making the same ones now, and
    a folder of theirs that vanished again would fail it."""
    whole = Path(os.path.normpath(folder.absolute()))
    there = next(each for each in (whole, *whole.parents) if os.path.lexists(each))
    probe = there / f".r2cc-{os.getpid()}"
    try:
        target = probe / whole.relative_to(there)
        target.mkdir(parents=True)
        (target / name).write_bytes(bytes(LEAST_ROOM))
    finally:
        shutil.rmtree(probe, ignore_errors=True)


@contextmanager
def told(path: Path) -> Iterator[None]:
    """An OSError of the block becomes `failed` about `path`."""
    try:
        yield
    except OSError as error:
        raise failed(path, error) from error


def failed(path: Path, error: OSError) -> R2ccError:
    """What to tell somebody whose file could not be written."""
    words = f"cannot write {path}: {FULL.get(error.errno or 0) or error.strerror or error}"
    if error.errno in FULL:
        return InfraError(words, "make room there, or write elsewhere; then run it again")
    if error.errno in OF_THE_MACHINE:
        return InfraError(words, "run it again")
    return UsageError(words, "name a place that you may write")
