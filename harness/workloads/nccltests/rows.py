"""The table that programs of nccl-tests print: columns known by the header above them. They differ by version."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

KEY = ("size", "count", "type")
OTHER_NAMES = {"bytes": "size", "n": "count", "op": "redop", "res": "error", "delta": "error", "cputime": "time"}
"""What older programs call a column (NCCL 1, nccl-tests before 2.0), and the time that the CPU took (`-C 1`)."""
UNIT = re.compile(r"\((us|ms|s)\)")
US = {"us": 1.0, "ms": 1e3, "s": 1e6}
FIRST_OF_GROUP = "time"
"""The columns from here to the next such one are of one kind: out of place first, then in place."""
LARGEST = 2**63
NO_NUMBER = "N/A"
NO_ROOT = "-1"
WHOLE = re.compile(r"0|[1-9]\d{0,17}")
"""As printf writes it, of no more than 63 bits."""
BYTES = {
    **dict.fromkeys(("half", "bfloat16"), 2), **dict.fromkeys(("float", "int32", "uint32", "int"), 4),
    **dict.fromkeys(("double", "int64", "uint64"), 8),
}  # fmt: skip
"""Of a type of more than one byte."""


@dataclass(frozen=True)
class Row:
    """One size, out of place or in place. None for a figure that is no number, and `wrong` that was not looked at."""

    size_bytes: int
    count: int
    type: str
    redop: str
    root: int
    time_us: float | None
    algbw_GBps: float | None
    busbw_GBps: float | None
    wrong: int | None
    in_place: bool
    times_us: tuple[float, ...] = ()
    """Of each iteration, where that was asked for."""
    error: float | None = None
    """The largest relative deviation: older programs print it instead of how many elements are wrong."""


@dataclass(frozen=True)
class Columns:
    """A header. `head`: the columns of a size; `groups`: those of each kind of measurement; `us`: its time's unit.

    `stamped`: each row ends with a timestamp, of one word or two."""

    head: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    us: float = 1.0
    stamped: bool = False

    @property
    def ends(self) -> list[int]:
        """How many words a row has after its head and after each group: it is printed in these pieces."""
        found = [len(self.head)]
        for group in self.groups:
            found.append(found[-1] + len(group))
        return found

    def in_unit_of(self, line: str) -> Columns:
        """The same with the unit of time that a line says, as the one below the header does."""
        found = UNIT.search(line)
        return self if found is None else replace(self, us=US[found[1]])

    def rows(self, words: Sequence[str]) -> list[Row]:
        """One for each group; none where the words are no whole row. More words may follow, such as a timestamp."""
        *starts, width = self.ends
        words = self.with_redop(words)
        if len(words) < width:
            return []
        head = dict(zip(self.head, words))  # noqa: B905 - 3.9 has no strict
        groups = [dict(zip(group, words[start:])) for start, group in zip(starts, self.groups)]  # noqa: B905
        found = [self._row(head, group, in_place=place > 0) for place, group in enumerate(groups)]
        whole = [row for row in found if row is not None]
        return whole if len(whole) == len(found) else []

    def with_redop(self, words: Sequence[str]) -> Sequence[str]:
        """hypercube_perf leaves the column of the operation empty; no operation is called a number."""
        place = self.head.index("redop") if "redop" in self.head else len(words)
        if len(words) <= place or re.fullmatch(r"-?\d+", words[place]) is None:
            return words
        return [*words[:place], "none", *words[place:]]

    def _row(self, head: Mapping[str, str], group: Mapping[str, str], *, in_place: bool) -> Row | None:
        """None for a line that only looks like a row: it has no numbers, or has lost its first digits."""
        try:
            time = number(group["time"])
            return Row(
                size_bytes=_size(head),
                count=_whole(head["count"]),
                type=head["type"],
                redop=head.get("redop", "none"),
                root=_root(head.get("root", NO_ROOT)),
                time_us=None if time is None else number(time * self.us),
                algbw_GBps=number(group["algbw"]),
                busbw_GBps=number(group["busbw"]),
                wrong=integer(group.get("#wrong")),
                in_place=in_place,
                error=number(group.get("error")),
            )
        except (KeyError, ValueError):
            return None


def _size(head: Mapping[str, str]) -> int:
    """At least what `count` elements take. Raises ValueError for what cannot be a size."""
    size = _whole(head["size"])
    if size < int(head["count"]) * BYTES.get(head["type"], 1):
        raise ValueError(f"{size} bytes for {head['count']} elements")
    return size


def _root(text: str) -> int:
    """A rank, or -1 for none. Raises ValueError for anything else."""
    return -1 if text == NO_ROOT else _whole(text)


def _whole(text: str) -> int:
    if not WHOLE.fullmatch(text):
        raise ValueError(f"{text} is no size, count or rank")
    return int(text)


def columns_of(line: str) -> Columns | None:
    """What a header says; None for a line that is none."""
    words = line.replace("#", " #", 1).split()
    words = words[1:] if words[:1] == ["#"] else words
    names = [_name(word) for word in words]
    if tuple(names[:3]) != KEY or FIRST_OF_GROUP not in names:
        return None
    wanted = [name for name in names if name != "timestamp"]
    starts = [place for place, name in enumerate(wanted) if name == FIRST_OF_GROUP]
    ends = [*starts[1:], len(wanted)]
    groups = tuple(tuple(wanted[start:end]) for start, end in zip(starts, ends))  # noqa: B905
    oldest = words[0] == "bytes"  # has no line of units, and prints ms
    made = Columns(tuple(wanted[: starts[0]]), groups, US["ms" if oldest else "us"], wanted != names)
    return made.in_unit_of(line)


def _name(word: str) -> str:
    """A column's name as today's programs write it: without its unit."""
    plain = word.partition("(")[0].lower()
    return OTHER_NAMES.get(plain, plain)


def number(value: Any) -> float | None:
    """A float; None of what is none, which is written as a string, or is too large for one. Raises ValueError of any
    other text."""
    if value is None or value == NO_NUMBER:
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def integer(value: Any) -> int | None:
    """None of null, and of what is no number; counts are floats there. ValueError as `number`, or beyond 63 bits."""
    found = number(value)
    if found is not None and abs(found) >= LARGEST:
        raise ValueError(f"{value} is no count")
    return None if found is None else int(found)
