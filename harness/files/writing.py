"""Files written whole or not at all, with an error that names the path: the operating system's own does not."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.errors import InfraError, R2ccError, UsageError

FULL = {errno.ENOSPC: "no space is left on the disk", errno.EDQUOT: "your quota of the disk is used up"}
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
    if path.is_dir():
        raise UsageError(f"{path}: it is a folder", "name a file")
    if path.exists() and not path.is_file():
        return
    part = path.with_name(f".{path.name[:200]}.{os.getpid()}.part")
    with told(path):
        part.touch()
        part.unlink()


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
