"""From what a rank prints to lines of docs/reference/contracts.md. Nothing is read from a process here."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

Line = dict[str, Any]
"""A line of the contract: `event` and `t_ns`, `rank` where it is a rank's."""


class LineReader(ABC):
    """Of one rank in one run, from its first line to its last. It is called by one thread alone.

    A reader of another program's output makes `bench_start`, `progress`, `iteration` and `bench_end` of it, and `log`
    lines with a `message` for what people should see. Called a batch at a time: a program may print 10 MB a second.
    """

    def begin(self, began_ns: int) -> None:
        """Called first: when the ranks were started, CLOCK_MONOTONIC of this machine."""
        self.began_ns = began_ns

    @abstractmethod
    def read(self, lines: Sequence[bytes], read_ns: int) -> Iterable[Line | bytes]:
        """What lines without their ends come to, in order: lines of the contract, and text for the journal as it is.

        `read_ns`: when they were read, CLOCK_MONOTONIC of this machine.
        """

    file: ClassVar[str] = ""
    """A file in $R2CC_OUT that its rank may leave, for `left`; empty: none."""

    def left(self, text: str | None) -> Iterable[Line | bytes]:
        """Called once after `end` where there is such a file, with its text; None: it was not there."""
        return ()

    def own_time(self, line: Line) -> bool:
        """The time in this line is of the rank's host. False: it comes from `read_ns`."""
        return True

    def quoted(self) -> str:
        """What it printed last, for people, where that is not on stderr."""
        return ""

    def end(self, read_ns: int) -> Iterable[Line | bytes]:
        """Called once when the rank has closed its output."""
        return ()


class JsonLines(LineReader):
    """One JSON object a line, as our own ranks print."""

    def read(self, lines: Sequence[bytes], read_ns: int) -> Iterator[Line | bytes]:
        for text in lines:
            line = parsed(text)
            if line is not None and isinstance(line.get("t_ns"), int):
                yield line
            elif text:
                yield text


def parsed(line: bytes) -> Line | None:
    """A line of the contract, or of the net library, which has no rank; None for everything else that is printed."""
    try:
        value = json.loads(line) if line.startswith(b"{") else None
    except ValueError:
        return None
    return value if isinstance(value, dict) and isinstance(value.get("event"), str) else None
