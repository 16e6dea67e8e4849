"""Where on the time axis the iterations of a row lie. Pure.

A program does at each size, out of place and then in place: a first operation that is not timed, the timed ones in a
row, one whose elements are checked. When it has printed the row, that is all that is known of when. So what a row took
besides its iterations is shared out evenly: a quarter before the first, a half between both ways, a quarter behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.workloads.nccltests.rows import Row

US = 1000
NOT_TIMED = 4
"""Operations of a row that are not timed."""
MORE = 1.5
"""A row that took so much more besides than its like had a stall in an operation that is not timed, too."""
Span = tuple[int, int]
"""Start and end, ns."""


@dataclass(frozen=True)
class Printed:
    """A row. `at_ns`: when it was read; `before_ns`: when the one before it was, None of the first."""

    at_ns: int
    before_ns: int | None
    rows: tuple[Row, ...]
    """Out of place, in place."""
    times_us: tuple[tuple[float, ...], ...] = ()
    """Of each of them, of each iteration."""

    @property
    def size_bytes(self) -> int:
        return self.rows[0].size_bytes


def placed(rows: Sequence[Printed]) -> list[list[list[Span]]]:
    """Of each row, of each way, the spans of its iterations."""
    found = []
    for row in rows:
        alike = [other for other in rows if other.size_bytes == row.size_bytes]
        usual = usual_spare_us(alike, [_taken_us(other) for other in alike])
        own = _spare_us(row, _taken_us(row))
        more = own is not None and own > MORE * usual
        spares = _shared(usual if own is None or more else own)
        if own is not None and more:
            spares[_beside(row)] += own - usual
        found.append(_spans(row, spares))
    return found


def _shared(spare_us: float) -> list[float]:
    """Before the iterations out of place, between both ways, and behind those in place."""
    return [spare_us / 4, spare_us / 2, spare_us / 4]


def _beside(row: Printed) -> int:
    """Where what is not timed took longest: beside the longest iteration, for a stall does not end with one."""
    times = [(time, way, place) for way, part in enumerate(row.times_us) for place, time in enumerate(part)]
    _, way, place = max(times)
    return way + (2 * place + 1 >= len(row.times_us[way]))


def usual_spare_us(alike: Sequence[Printed], taken_us: Sequence[float]) -> float:
    """What rows of one size take besides their iterations: the least of them, or some operations' time if nobody
    knows."""
    known = [spare for row, taken in zip(alike, taken_us, strict=True) if (spare := _spare_us(row, taken)) is not None]
    times = [row.time_us or 0.0 for row in alike[0].rows]
    return min(known) if known else NOT_TIMED * sum(times) / len(times)


def _taken_us(row: Printed) -> float:
    return sum(map(sum, row.times_us))


def _spare_us(row: Printed, taken_us: float) -> float | None:
    return None if row.before_ns is None else max(0.0, (row.at_ns - row.before_ns) / US - taken_us)


def _spans(row: Printed, spares_us: Sequence[float]) -> list[list[Span]]:
    end_us = row.at_ns / US
    found: list[list[Span]] = []
    for times, spare_us in zip(reversed(row.times_us), reversed(spares_us[1:]), strict=False):
        end_us -= spare_us
        ways: list[Span] = []
        for time in reversed(times):
            ways.append((round((end_us - time) * US), round(end_us * US)))
            end_us -= time
        found.append(ways[::-1])
    return found[::-1]
