"""Reads the hunks of a patch file. Ours are plain: changed files only, none added, removed or renamed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import SourceError

PLACE = re.compile(r"^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")
FILE = "+++ b/"


@dataclass(frozen=True)
class Hunk:
    """One change. `start` is the line, from 0, where `old` begins in the file that the patch was made for."""

    path: str
    number: int
    start: int
    lines: Sequence[tuple[str, str]]
    """each with its sign: a space, - or +"""

    @property
    def old(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def new(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "-"]

    @property
    def lead(self) -> int:
        """How many lines of context stand before the first change."""
        return next(at for at, (sign, _) in enumerate(self.lines) if sign != " ")

    @property
    def trail(self) -> int:
        return next(at for at, (sign, _) in enumerate(reversed(self.lines)) if sign != " ")

    @property
    def core_old(self) -> list[str]:
        """What is taken away, with context between but none around; empty where lines are only added."""
        return self.old[self.lead : len(self.old) - self.trail]

    @property
    def core_new(self) -> list[str]:
        return self.new[self.lead : len(self.new) - self.trail]


def read_hunks(text: str, name: str) -> list[Hunk]:
    """All hunks of a patch in order, numbered from 1 in each file. SourceError for what is no patch of ours."""
    found: list[Hunk] = []
    path, number, start = "", 0, -1
    body: list[tuple[str, str]] = []

    def close() -> None:
        if start >= 0 and body:
            found.append(Hunk(path, number, start, tuple(body)))
        body.clear()

    for line in text.splitlines():
        if line.startswith(FILE):
            close()
            path, number, start = line.removeprefix(FILE), 0, -1
        elif (place := PLACE.match(line)) and path:
            close()
            number, start = number + 1, int(place[1]) - 1
        elif line.startswith(("diff --git ", "--- a/")):
            close()
            start = -1
        elif start >= 0 and line[:1] in (" ", "-", "+"):
            body.append((line[0], line[1:]))
        elif start >= 0 and not line:
            body.append((" ", ""))
    close()
    if not found:
        raise SourceError(f"{name} holds no hunk", "restore it from git")
    return found
