"""Bytes of files, under limits. What a user names is read as any program does (`input_of`); in a folder that anybody
may have written nothing but regular files are read, and no link is followed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from harness.errors import UsageError

MOST_BYTES = 64 << 20
MOST_INPUT_BYTES = 2 << 20
"""Of one file that people write. The largest that we ship has 7 KB, and 2,000 faults have 250."""
FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""No link is followed, and a pipe that nobody writes to is not waited for."""
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link",
}
LINK, SOCKET = (errno.ELOOP, errno.EMLINK), (errno.ENXIO, errno.ENODEV)


class Unreadable(UsageError):
    """A file that is not read; the message names it and says why."""


class Missing(Unreadable):
    """There is no such file."""


def input_of(path: Path, what: str, hint: str, most: int = MOST_INPUT_BYTES) -> str:
    """The text of a file that a user names. `what` is how the message begins: "the experiment".

    UsageError: it is not there, cannot be read, is no UTF-8, or has more than `most` bytes.
    """
    try:
        data = _first_bytes(path, most + 1)
        if len(data) > most:
            raise UsageError(f"{what} {path} is larger than {most >> 20} MiB, which is the most", hint)
        return data.decode("utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {what} {path}: {error.strerror or error}", hint) from error
    except ValueError as error:
        raise UsageError(f"cannot read {what} {path}: {error}", hint) from error


def _first_bytes(path: Path, most: int) -> bytes:
    """A FIFO that nobody writes to counts as empty: opened in the usual way, it would never open."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        os.set_blocking(file.fileno(), True)
        return file.read(most)


@contextmanager
def opened(path: Path, most_bytes: int | None = MOST_BYTES) -> Iterator[IO[bytes]]:
    """The file, if it is a regular one of at most so many bytes. Missing or Unreadable else; OSErrors of the block
    become Unreadable, too."""
    try:
        with open(path, "rb", buffering=1 << 20, opener=partial(_open, path, most_bytes)) as file:
            yield file
    except FileNotFoundError as error:
        raise Missing(f"{path.name} is missing") from error
    except OSError as error:
        raise Unreadable(f"{path.name} {_why(path, error)}") from error


def bytes_of(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """All of it. Missing, or Unreadable: no regular file, larger than `most_bytes`, or an error of the system."""
    with opened(path, most_bytes) as file:
        found = file.read(most_bytes + 1)
    if len(found) > most_bytes:
        raise _too_large(path, most_bytes)
    return found


def text_of(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """All of it, as `bytes_of`; Unreadable for what is not UTF-8, too."""
    return decoded(bytes_of(path, most_bytes), path.name)


def decoded(raw: bytes, name: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"{name} is not UTF-8 text (byte {error.start})") from error


def tail_of(path: Path, most_bytes: int) -> bytes:
    """The last bytes of a file of any size."""
    with opened(path, None) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most_bytes))
        return file.read(most_bytes)


def is_there(path: Path) -> bool:
    """True for a regular file itself, as all readers here want it; False for a link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def _open(path: Path, most_bytes: int | None, _name: str, _flags: int) -> int:
    fd = os.open(path, FLAGS)
    try:
        _check(path, os.fstat(fd), most_bytes)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check(path: Path, found: os.stat_result, most_bytes: int | None) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable(f"{path.name} is {_kind(found.st_mode)}, not a file")
    if most_bytes is not None and found.st_size > most_bytes:
        raise _too_large(path, most_bytes)


def _too_large(path: Path, most_bytes: int) -> Unreadable:
    limit = f"{most_bytes >> 20} MiB" if most_bytes >= 1 << 20 else f"{most_bytes} bytes"
    return Unreadable(f"{path.name} is larger than {limit}")


def _kind(mode: int) -> str:
    return KINDS.get(stat.S_IFMT(mode), "something else")


def _why(path: Path, error: OSError) -> str:
    """What opening it said, in words; a link and a socket are told by it."""
    if error.errno in (*LINK, *SOCKET):
        try:
            return f"is {_kind(path.lstat().st_mode)}, not a file"
        except OSError:
            pass
    return f"cannot be read: {error.strerror or error}"
