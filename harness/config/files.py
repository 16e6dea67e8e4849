"""Reads an input file of a user, and writes the file that `--out` names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.errors import UsageError
from harness.os_errors import described

MOST_BYTES = 2 << 20
"""Of one file that people write. The largest that we ship has 7 KB, and 2,000 faults have 250."""


def text_of(path: Path, what: str, hint: str, most: int = MOST_BYTES) -> str:
    """The text of `path`, which is UTF-8. `what` is how the message begins: "the experiment".

    UsageError: it is not there, cannot be read, is no text, or has more than `most` bytes.
    """
    try:
        data = _bytes_of(path, most + 1)
        if len(data) > most:
            raise UsageError(f"{what} {path} is larger than {most >> 20} MiB, which is the most", hint)
        return data.decode("utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {what} {path}: {error.strerror or error}", hint) from error
    except ValueError as error:
        raise UsageError(f"cannot read {what} {path}: {error}", hint) from error


def _bytes_of(path: Path, most: int) -> bytes:
    """At most so many. A FIFO that nobody writes to counts as empty: opened in the usual way, it would never open."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        os.set_blocking(file.fileno(), True)
        return file.read(most)


def check_output(path: Path) -> None:
    """Before work that would be lost else: UsageError when nothing can be written to `path`."""
    if path.is_dir():
        raise UsageError(f"{path}: it is a folder", "name a file")
    if not path.exists() or path.is_file():
        with _told(path), _part(path) as part:
            part.touch()


def write_output(path: Path, text: str) -> None:
    """Whole or not at all; a device or a FIFO takes it as it comes. UsageError with the path when it cannot be."""
    with _told(path):
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        with _part(path) as part:
            part.write_text(text, encoding="utf-8")
            part.replace(path)


@contextmanager
def _part(path: Path) -> Iterator[Path]:
    """A file beside `path`, which is gone afterwards unless it has become `path`."""
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield part
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what, _, advice = described(OSError(error.errno, error.strerror, str(path))).partition("\n  try: ")
        raise UsageError(f"cannot write {what}", advice) from error
