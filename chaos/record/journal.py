"""The journal of a run: JSON lines, complete up to the moment the controller dies, however it dies."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.errors import InputErrors
from harness.files.writing import failed, told

SCHEMA = 1
OUTSIDE = "-"
"""Arm of lines that belong to no arm, for example what happened before the first one."""

Line = dict[str, Any]
_encoded = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def now_ns() -> int:
    """CLOCK_MONOTONIC, the clock of every `t_ns` in a journal; shared by all namespaces of one machine."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Journal:
    """Appends to journal.jsonl, each line with one write(2): a kill -9 can cut nothing but a line being written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with told(path):
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._size = os.fstat(self._fd).st_size
        self._arm = OUTSIDE
        self._run = 0
        self.told: Callable[[Line], None] = lambda _line: None
        """Hears every line once it is written."""

    def enter(self, arm: str, run: int) -> None:
        """From here on lines belong to repeat `run` of `arm`."""
        self._arm, self._run = arm, run

    def write(self, event: str, *, host: str = "controller", t_ns: int | None = None, **fields: Any) -> Line:
        """Writes a line of the controller's own and returns it; `t_ns` is now unless the event was earlier."""
        return self.merge(host, {"t_ns": now_ns() if t_ns is None else t_ns, "event": event, **fields})

    def merge(self, host: str, line: Line) -> Line:
        """Writes a line that a process on `host` printed, with what the common schema adds."""
        whole = {"schema": SCHEMA, "host": host, "arm": self._arm, "run": self._run, **line}
        self._append(_encoded(whole).encode() + b"\n")
        self.told(whole)
        return whole

    def _append(self, data: bytes) -> None:
        """InfraError when the disk is full: what there is of the line is taken back, so that the next one is whole."""
        written = 0
        try:
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError as error:
            if os.fstat(self._fd).st_size == self._size + written:
                os.ftruncate(self._fd, self._size)
            raise failed(self.path, error) from error
        self._size += written

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read(path: Path) -> Iterator[Line]:
    """Yields the lines of a journal; a last line cut short by a crash is left out, damage elsewhere is an error.

    Raises InputErrors with file and line number for a line that is not a JSON object.
    """
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if not raw.endswith(b"\n"):
                return
            yield _parse(raw, f"{path}:{number}")


def _parse(raw: bytes, place: str) -> Line:
    try:
        line = json.loads(raw)
    except ValueError as error:
        raise InputErrors([f"{place}: not JSON: {error}"]) from error
    if not isinstance(line, dict):
        raise InputErrors([f"{place}: not a JSON object"])
    return line
