"""Lines of what processes print, chunk by chunk. Launchers that carry the output of several ranks have readers of
their own. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

END = re.compile(rb"\r?\n|\r(?=[^\n])")
"""Also that of a progress bar; what ends a chunk may be half an end."""
LONGEST_LINE = 1 << 20
"""What is longer is cut: output may be binary."""
Line = tuple[int | None, bytes]
"""(rank, line without its end); rank None: the launcher's own, or not told."""
Reader = Callable[[bytes], list[Line]]
"""Lines that a chunk ends; an empty chunk is the end of all, and what is left is a line."""


@dataclass
class Whole:
    """Lines as they are, of one rank or of nobody knows whom."""

    rank: int | None = None
    rest: bytes = b""

    def __call__(self, chunk: bytes) -> list[Line]:
        text = self.rest + chunk
        *lines, self.rest = END.split(text) if b"\r" in text else text.split(b"\n")
        if len(self.rest) > LONGEST_LINE or not chunk:
            lines, self.rest = [*lines, self.rest.rstrip(b"\r")], b""
        return [(self.rank, line) for line in lines]


@dataclass
class Labelled:
    """Whole lines, each begun by what says its rank: the group of `label`."""

    label: re.Pattern[bytes]
    whole: Whole = field(default_factory=Whole)

    def __call__(self, chunk: bytes) -> list[Line]:
        return [self._of(line) for _, line in self.whole(chunk)]

    def _of(self, line: bytes) -> Line:
        found = self.label.match(line)
        return (None, line) if found is None else (int(found[1]), line[found.end() :])


@dataclass
class Verbatim:
    """Lines with their ends, as a program printed them: one without an end was cut short."""

    rest: bytes = b""

    def __call__(self, chunk: bytes) -> list[Line]:
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        whole = [line + b"\n" for line in lines]
        if len(self.rest) > LONGEST_LINE or not chunk:
            whole, self.rest = [*whole, self.rest], b""
        return [(None, line) for line in whole]
