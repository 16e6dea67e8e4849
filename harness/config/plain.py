"""Values that came from outside: held against limits, and made fit for a terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from harness.config.files import Unreadable

MOST_DEPTH = 64
LARGEST, LARGEST_COUNTER = 2**63, 10**20
"""The second where counters are read, which have as many digits in a kernel; what they are used for judges them."""
LONGEST = 19
"""Digits of the largest number."""
SURROGATE = re.compile("[\ud800-\udfff]")


def check(value: object, name: str, largest: int = LARGEST) -> None:
    """Unreadable for lists and mappings more than MOST_DEPTH deep, whole numbers of over 64 bits (from `largest` on),
    numbers that are none or infinite, and text that is no Unicode. Never recurses: the value may be of any depth."""
    level: list[object] = [value]
    for _ in range(MOST_DEPTH + 1):
        level = [inner for outer in level for inner in _checked(outer, name, largest)]
        if not level:
            return
    raise Unreadable(f"{name} is more than {MOST_DEPTH} levels deep")


def _checked(value: object, name: str, largest: int) -> Iterator[object]:
    """What is in it."""
    if isinstance(value, dict):
        yield from value
        yield from value.values()
    elif isinstance(value, list | tuple | set):
        yield from value
    elif isinstance(value, str):
        if not value.isascii() and SURROGATE.search(value):
            raise Unreadable(f"{name} holds text that is no Unicode (half of a surrogate pair)")
    elif isinstance(value, int) and not -LARGEST <= value < largest:
        raise Unreadable(f"{name} holds a number of more than 64 bits")
    elif isinstance(value, float) and not math.isfinite(value):
        raise Unreadable(f"{name} holds a number that is none, or is infinite")


def printable(text: str) -> str:
    """Text without control characters, which could rewrite the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def lines(text: str) -> str:
    """The same of text of several lines."""
    return "\n".join(map(printable, text.split("\n")))


def cleaned(value: Any) -> Any:
    """The same with all text `printable` but for its line breaks and tabs; of what `check` let pass."""
    if isinstance(value, str):
        return value if value.isprintable() else "".join(c if c.isprintable() or c in "\n\t" else " " for c in value)
    if isinstance(value, dict):
        return {cleaned(key): cleaned(inner) for key, inner in value.items()}
    return [cleaned(inner) for inner in value] if isinstance(value, list) else value
