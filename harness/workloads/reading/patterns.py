"""Patterns that users write, for what a program prints: matched within a limit of time."""

from __future__ import annotations

import math
import re
from functools import cached_property
from typing import TYPE_CHECKING

from harness.errors import InfraError

if TYPE_CHECKING:
    from regex import Match, Pattern

MOST_S = 1.0
"""CPU time for what is read at once, some 64 KiB: a good pattern takes milliseconds. No fault is reverted meanwhile."""
SHOWN = 60
MOST_COPIES = 100_000
"""Of what a pattern repeats: a{1000} is kept as a thousand copies, and repeats within repeats multiply."""
REPEATS = re.compile(r"(?<!\\)\{(\d+)")


def fault_of(text: str) -> str:
    """Why a pattern is of no use; empty: it is. Asked of the package that matches it, whose words differ from re's."""
    import regex

    copies = math.prod(max(1.0, float(number)) for number in REPEATS.findall(text))
    if copies > MOST_COPIES:
        return f"its repeats make {copies:g} copies, and {MOST_COPIES} are the most: use + or * in place of numbers"
    try:
        found = regex.compile(text.encode())
    except regex.error as error:
        return f"it is no regular expression: {error}"
    return "it matches an empty line, so it says nothing about progress" if found.match(b"") else ""


class Finder:
    """One pattern. `key`: where it stands in the experiment, for people."""

    def __init__(self, key: str, text: str) -> None:
        self._key, self._text = key, text

    @cached_property
    def _compiled(self) -> Pattern[bytes]:
        import regex

        return regex.compile(self._text.encode(), regex.MULTILINE)

    def found(self, printed: bytes, rank: int) -> list[Match[bytes]]:
        """All that it finds in lines of a rank. InfraError where that takes too long."""
        try:
            return list(self._compiled.finditer(printed, timeout=MOST_S))
        except TimeoutError as error:
            longest = max(printed.split(b"\n"), key=len)
            raise InfraError(
                f"rank {rank}: {self._key} is too slow for what the program prints: '{self._text}' took more than "
                f"{MOST_S:g} s; the longest line has {len(longest)} bytes and begins with "
                f"{longest[:SHOWN].decode(errors='replace')!r}",
                "a repeat within a repeat, as in (a+)+, and several .* in a row try far too many ways: "
                "begin the pattern with fixed words, and say what a part consists of, as in [0-9.]+",
            ) from error
