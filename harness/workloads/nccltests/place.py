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


@dataclass(frozen=True)
class Placed:
    """A row's iterations on the time axis."""

    spans: list[list[Span]]
    """Of each way, of each iteration."""
    longest: tuple[int, int]
    """Way and number of the longest one."""
    beside_us: float
    """How much longer than usual the operations beside it took that are not timed; 0 where they did not stall."""


def placed(rows: Sequence[Printed]) -> list[Placed]:
    """Each row; a stall in an operation that is not timed lies beside the longest iteration."""
    found = []
    for row in rows:
        alike = [other for other in rows if other.size_bytes == row.size_bytes]
        usual = usual_spare_us(alike, [_taken_us(other) for other in alike])
        own = _spare_us(row, _taken_us(row))
        more = own is not None and own > MORE * usual
        spares = _shared(usual if own is None or more else own)
        way, number = _longest(row)
        beside_us = own - usual if own is not None and more else 0.0
        spares[way + (2 * number + 1 >= len(row.times_us[way]))] += beside_us
        found.append(Placed(_spans(row, spares), (way, number), beside_us))
    return found


def _shared(spare_us: float) -> list[float]:
    """Before the iterations out of place, between both ways, and behind those in place."""
    return [spare_us / 4, spare_us / 2, spare_us / 4]


def _longest(row: Printed) -> tuple[int, int]:
    """Way and number. What is not timed took longest beside it, for a stall does not end with an iteration."""
    times = [(time, way, number) for way, part in enumerate(row.times_us) for number, time in enumerate(part)]
    _, way, number = max(times)
    return way, number


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
