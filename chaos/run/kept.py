"""What a program printed, kept for people: how it began and how it ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

from harness.files.writing import told
from harness.workloads.reading.steps import EVENT

END_BYTES = 1 << 20
"""So much of its beginning, and about so much of its end."""


class Kept:
    """Of one rank. Bounded, however much it prints."""

    def __init__(self) -> None:
        self._head: list[bytes] = []
        self._head_bytes = 0
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._left_out = 0

    def add(self, lines: Sequence[bytes]) -> None:
        """Lines without their ends; those of the library are in the journal."""
        text = b"\n".join(lines)
        if EVENT in text:
            text = b"\n".join(line for line in lines if not line.startswith(EVENT))
        if not text:
            return
        text += b"\n"
        room = END_BYTES - self._head_bytes
        if room > 0:
            self._head.append(text[:room])
            self._head_bytes += len(self._head[-1])
            text = text[room:]
        if text:
            self._add_to_tail(text)

    def _add_to_tail(self, text: bytes) -> None:
        self._tail.append(text)
        self._tail_bytes += len(text)
        while self._tail_bytes - len(self._tail[0]) >= END_BYTES:
            first = len(self._tail.popleft())
            self._tail_bytes -= first
            self._left_out += first

    def write(self, path: Path) -> None:
        """Nothing where it printed nothing. InfraError when the disk is full."""
        if not self._head:
            return
        between = [b"\n... %d bytes are left out here ...\n" % self._left_out] if self._left_out else []
        with told(path), path.open("wb") as file:
            file.writelines([*self._head, *between, *self._tail])
