"""Files written whole or not at all, with an error that names the path: the operating system's own does not."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.errors import InfraError, R2ccError, UsageError

FULL = {errno.ENOSPC: "no space is left on the disk", errno.EDQUOT: "your quota of the disk is used up"}
LEAST_ROOM = 16384
"""Bytes. Any run writes more."""
PART_NAME = 100
"""Bytes of a file's name that its part's has."""
MOST_LINKS = 40
"""As Linux."""
OF_THE_MACHINE = (*FULL, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE)


def write_whole(path: Path, content: str | bytes) -> Path:
    """A reader, a full disk or a kill never leaves half a file. Makes the folder; returns the path. Where it is a link,
    what it leads to is written; a pipe or a device is written to as it is, and our own output where it has come to.

    UsageError when it cannot be written there, InfraError when the disk is full or fails.
    """
    data = content.encode() if isinstance(content, str) else content
    with told(path):
        target = target_of(path)
        if target is None:
            _pour(path, data)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            _put(target, data)
    return path


def _pour(path: Path, data: bytes) -> None:
    """Into what is there. Our own output is not opened by its name: that would empty the file behind it, and what is
    printed before and after would lie over the data."""
    own = descriptor_of(path)
    if own is None:
        path.write_bytes(data)
        return
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with os.fdopen(os.dup(own), "wb") as file:
        file.write(data)


def descriptor_of(path: Path) -> int | None:
    """1 of /dev/stdout, /dev/fd/1 and links to them; None for what is no open file of this process."""
    ours, step = Path(os.path.realpath("/proc/self/fd")), path.absolute()
    for _ in range(MOST_LINKS):
        step = Path(os.path.realpath(step.parent)) / step.name
        if step.parent == ours or not step.is_symlink():
            break
        step = step.parent / step.readlink()
    return int(step.name) if step.parent == ours and step.name.isdecimal() else None


def _put(path: Path, data: bytes) -> None:
    part = part_of(path)
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def part_of(path: Path) -> Path:
    """What is written first. Its name is valid wherever the file's own is: file systems limit bytes, not characters."""
    head = os.fsencode(path.name)[:PART_NAME].decode(errors="ignore")
    return path.with_name(f".{head}.{os.getpid()}.part")


def target_of(path: Path) -> Path | None:
    """The file at the end of all links; None for what is no file, and for what is reached through /dev or /proc, as
    /dev/stdout is: those must not be replaced. OSError where links lead nowhere."""
    step = path.absolute()
    for _ in range(MOST_LINKS):
        step = Path(os.path.realpath(step.parent)) / step.name
        if step.is_relative_to("/proc") or (step.is_relative_to("/dev") and not step.is_relative_to("/dev/shm")):
            return None
        if not step.is_symlink():
            return step if step.is_file() or not step.exists() else None
        step = step.parent / step.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def check_writable(path: Path) -> None:
    """Before work that would be lost else: the errors of `write_whole`; leaves nothing behind."""
    with told(path):
        if path.is_dir():
            raise UsageError(f"{path}: it is a folder", "name a file")
        if (target := target_of(path)) is not None:
            try_file(target.parent, target.name)
        elif not path.exists():  # nothing is made under /proc or /dev
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        elif (own := descriptor_of(path)) is not None and fcntl.fcntl(own, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "it is open for reading alone", str(path))


def check_folder(folder: Path) -> None:
    """The same of a folder that files are written into, and that may not be there yet."""
    with told(folder):
        try_file(folder, "r2cc")


def try_file(folder: Path, name: str) -> None:
    """Raises the OSError that a file in that folder would meet, and leaves nothing.

    It is tried beside the folders that are missing, never with them: another run may be making the same ones now, and
    a folder of theirs that vanished again would fail it."""
    whole, there = _nearest(folder)
    probe = Path(tempfile.mkdtemp(prefix=".r2cc-", dir=there))
    try:
        target = probe / whole.relative_to(there)
        target.mkdir(parents=True, exist_ok=True)
        _put(target / name, bytes(LEAST_ROOM))
    finally:
        shutil.rmtree(probe, ignore_errors=True)


def look_at(folder: Path) -> None:
    """Raises the OSError that making that folder, or a file in it, would meet as far as that is seen without writing:
    not that the disk is full."""
    _, there = _nearest(folder)
    with suppress(FileNotFoundError):
        folder.lstat()
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(there))
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(there))


def _nearest(folder: Path) -> tuple[Path, Path]:
    """The folder without links, as the operating system goes through them, and the nearest one that is there. OSError
    where a link leads nowhere: no folder is made through it."""
    absolute = folder.absolute()
    first = next(each for each in (absolute, *absolute.parents) if os.path.lexists(each))
    first.stat()
    whole = Path(os.path.realpath(absolute))
    return whole, next(each for each in (whole, *whole.parents) if os.path.lexists(each))


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
