"""What a rank prints: our lines, and the server's as they are; never one amid another."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any

STDOUT = 1
MOST_HELD = 1 << 16
"""Of a line that has no end yet."""


class Output:
    """Of one rank; its methods may be called by any thread."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self._lock = threading.Lock()

    def say(self, event: str, **fields: Any) -> None:
        """One line of docs/reference/contracts.md."""
        line = {"event": event, "t_ns": time.monotonic_ns(), "rank": self.rank, **fields}
        self._write((json.dumps(line, separators=(",", ":")) + "\n").encode())

    def error(self, message: str) -> None:
        """For people: the last line of a run that cannot go on."""
        self._write(f"{message}\n".encode())

    def copy(self, source: int) -> None:
        """Passes on whole lines until there are no more."""
        rest = b""
        while piece := os.read(source, MOST_HELD):
            whole, end, rest = (rest + piece).rpartition(b"\n")
            if len(rest) > MOST_HELD:
                whole, end, rest = rest, b"\n", b""
            if end:
                self._write(whole + end)
        if rest:
            self._write(rest + b"\n")

    def _write(self, data: bytes) -> None:
        with self._lock:
            while data:
                data = data[os.write(STDOUT, data) :]
