"""Makes a failing list smaller: delta debugging (Zeller and Hildebrandt 2002, ddmin), in bounded time. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

Fails = Callable[[list[T]], bool]


class OutOfTime(Exception):
    """No more attempts may be made; what was found so far counts."""


def shrink(items: Sequence[T], fails: Fails[T]) -> list[T]:
    """A sublist, in order, that still fails; as small as could be found before `fails` raised OutOfTime.

    First the shortest failing end of the list, because what came last is most often to blame, then ddmin on that.
    """
    best = list(items)

    def check(candidate: list[T]) -> bool:
        nonlocal best
        if not candidate or len(candidate) >= len(best) or not fails(candidate):
            return False
        best = candidate
        return True

    try:
        _shortest_end(best, check)
        _ddmin(lambda: best, check)
    except OutOfTime:
        return best
    return best


def _shortest_end(items: list[T], check: Fails[T]) -> None:
    count = 1
    while count < len(items):
        if check(items[-count:]):
            return
        count *= 2


def _ddmin(current: Callable[[], list[T]], check: Fails[T]) -> None:
    parts = 2
    while len(current()) > 1:
        items = current()
        size = -(-len(items) // parts)
        starts = range(0, len(items), size)
        if any(check(items[start : start + size]) for start in starts):
            parts = 2
        elif any(check(items[:start] + items[start + size :]) for start in starts):
            parts = max(2, parts - 1)
        elif parts < len(items):
            parts = min(len(items), 2 * parts)
        else:
            return
