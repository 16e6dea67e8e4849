"""Reads an input file of a user."""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import UsageError

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
