"""Finds where a hunk belongs in another version of its file."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from harness.port.hunks import Hunk

Outcome = Literal["applied", "moved", "reformatted", "neighbours", "failed"]
APPLIED: Final = "applied"
MOVED: Final = "moved"
REFORMATTED: Final = "reformatted"
NEIGHBOURS: Final = "neighbours"
FAILED: Final = "failed"
LIKE = 0.5
"""How alike a place must be, of 1, to be named as the nearest."""


@dataclass(frozen=True)
class Placement:
    """`outcome`: applied (same line), moved, reformatted (white space and line breaks differ), neighbours (what stands
    before or behind has changed: to be looked at) or failed. `lines` replace those from `begin` to `end`."""

    outcome: Outcome
    begin: int
    end: int = 0
    lines: Sequence[str] = ()


def place(hunk: Hunk, where: Sequence[int | None], after: Sequence[str]) -> Placement:
    """`where`: the lines of the hunk's own file in `after` (alignment.aligned). Failed names the nearest line."""
    begin, end = hunk.start, hunk.start + len(hunk.old)
    low, high = _window(where, begin, end, len(after))
    return (
        _whole(hunk, where[begin:end], after)
        or _reformatted(hunk, after, low, high)
        or _core(hunk, where[begin:end], after, low, high)
        or Placement(FAILED, _nearest(hunk, where, after, low, high))
    )


def _window(where: Sequence[int | None], begin: int, end: int, lines: int) -> tuple[int, int]:
    """Between the last known line before the hunk and the first behind it."""
    before = next((line for line in reversed(where[:begin]) if line is not None), -1)
    behind = next((line for line in where[end:] if line is not None), lines)
    return before + 1, max(behind, before + 1)


def _whole(hunk: Hunk, lines: Sequence[int | None], after: Sequence[str]) -> Placement | None:
    """Every line of the hunk is known, and nothing came in between."""
    first = lines[0]
    if first is None or list(lines) != list(range(first, first + len(lines))):
        return None
    end = first + len(lines)
    if list(after[first:end]) == hunk.old:
        return Placement(MOVED if first != hunk.start else APPLIED, first, end, hunk.new)
    return _kept(hunk, after, first, end)


def _reformatted(hunk: Hunk, after: Sequence[str], low: int, high: int) -> Placement | None:
    found = list(_same_text(hunk.old, after, low, high))
    return _kept(hunk, after, *found[0]) if len(found) == 1 else None


def _kept(hunk: Hunk, after: Sequence[str], begin: int, end: int) -> Placement:
    """Context keeps the form it has there, where it ends with a line; the rest is ours."""
    old = hunk.old
    first = _length(after[begin:end], old[: hunk.lead])
    last = _length(_backwards(after[begin:end]), _backwards(old[len(old) - hunk.trail :]))
    lines = list(hunk.core_new)
    if first is None:
        lines = old[: hunk.lead] + lines
    if last is None:
        lines += old[len(old) - hunk.trail :]
    return Placement(REFORMATTED, begin + (first or 0), end - (last or 0), lines)


def _length(there: Sequence[str], ours: Sequence[str]) -> int | None:
    """How many lines there say what ours say; None when that ends within a line."""
    wanted = _squeezed(ours)
    for count in range(len(there) + 1):
        text = _squeezed(there[:count])
        if len(text) >= len(wanted):
            return count if text == wanted else None
    return None


def _backwards(lines: Sequence[str]) -> list[str]:
    return [line[::-1] for line in reversed(lines)]


def _core(hunk: Hunk, lines: Sequence[int | None], after: Sequence[str], low: int, high: int) -> Placement | None:
    """Without the context: by what is taken away, or, where lines are only added, by the line before or behind."""
    if hunk.core_old:
        found = list(_same_text(hunk.core_old, after, low, high))
        return Placement(NEIGHBOURS, *found[0], hunk.core_new) if len(found) == 1 else None
    before = lines[hunk.lead - 1] if hunk.lead else None
    behind = lines[hunk.lead] if hunk.trail else None
    at = before + 1 if before is not None else behind
    return None if at is None else Placement(NEIGHBOURS, at, at, hunk.core_new)


def _squeezed(lines: Sequence[str]) -> str:
    return "".join("".join(lines).split())


def _same_text(block: Sequence[str], after: Sequence[str], low: int, high: int) -> Iterator[tuple[int, int]]:
    """Where whole lines say the same but for white space and line breaks. Blank lines around are not part of it."""
    wanted = _squeezed(block)
    if not wanted:
        return
    for begin in range(low, high):
        text = ""
        for end in range(begin, high):
            text += _squeezed(after[end : end + 1])
            if end == begin and not text:
                break
            if text == wanted:
                yield begin, end + 1
            if len(text) >= len(wanted):
                break


def _nearest(hunk: Hunk, where: Sequence[int | None], after: Sequence[str], low: int, high: int) -> int:
    """The line most like the longest that is taken away, or else of the context: of the lines that are new there."""
    wanted = max(hunk.core_old or hunk.old, key=len).strip()
    known = set(where)
    lines = [at for at in range(low, high) if at not in known] or list(range(low, min(high + 1, len(after))))
    likeness = {at: difflib.SequenceMatcher(None, wanted, after[at].strip()).ratio() for at in lines}
    best = max(likeness, key=likeness.__getitem__, default=low)
    return best if likeness.get(best, 0) >= LIKE else low
