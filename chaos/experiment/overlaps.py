"""Which faults meet on the same NIC or rank; by sorting, so that thousands of them take no longer than reading them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from chaos.faults.spec import FaultSpec

Thing = tuple[str, str]
"""(host, NIC), or a rank and what it suffers."""
Faults = Mapping[int, FaultSpec]
"""By index in the file."""


def overlapping(faults: Faults, broken: Mapping[int, set[Thing]]) -> Iterator[tuple[int, int, Thing]]:
    """(index of a fault, index of an earlier one in the file, what both break at once): one of each two, in order.

    Of more than two that meet on one thing, each is told with one of the others.
    """
    found: dict[tuple[int, int], Thing] = {}
    for thing, indices in sorted(_by_thing(broken).items()):
        for one, other in [*_by_time(faults, indices), *_by_iteration(faults, indices)]:
            found.setdefault((max(one, other), min(one, other)), thing)
    for (index, earlier), thing in sorted(found.items()):
        yield index, earlier, thing


def _by_thing(broken: Mapping[int, set[Thing]]) -> dict[Thing, list[int]]:
    found: dict[Thing, list[int]] = defaultdict(list)
    for index, things in broken.items():
        for thing in things:
            found[thing].append(index)
    return found


def _by_time(faults: Faults, indices: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Those that begin before one that began earlier has ended."""
    timed = [(at_s, index) for index in indices if (at_s := faults[index].at.time_s) is not None]
    ends_s, last = -1.0, -1
    for at_s, index in sorted(timed):
        if at_s < ends_s:
            yield index, last
        if at_s + faults[index].lasts_s > ends_s:
            ends_s, last = at_s + faults[index].lasts_s, index


def _by_iteration(faults: Faults, indices: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Those that strike in the same iteration."""
    first: dict[int, int] = {}
    for index in indices:
        iteration = faults[index].at.iteration
        if iteration is not None and first.setdefault(iteration, index) != index:
            yield index, first[iteration]


class Cuts:
    """When one NIC is cut, by all faults that cut it."""

    def __init__(self, faults: Sequence[FaultSpec]) -> None:
        timed = sorted((fault.at.time_s, fault.lasts_s) for fault in faults if fault.at.time_s is not None)
        self._starts = [at_s for at_s, _ in timed]
        self._ends = [*accumulate((at_s + lasts_s for at_s, lasts_s in timed), max)]
        self._untimed = len(timed) < len(faults)

    def may_meet(self, fault: FaultSpec) -> bool:
        """Whether it may be cut while `fault` lasts: true unless it is certain that they are apart."""
        at_s = fault.at.time_s
        if at_s is None or self._untimed:
            return True
        begun = bisect_left(self._starts, at_s + fault.lasts_s)
        return begun > 0 and self._ends[begun - 1] > at_s


def cuts_of(faults: Faults, cut: Mapping[int, Sequence[Thing]]) -> dict[Thing, Cuts]:
    """By (host, NIC); `cut` has what each fault cuts."""
    found = _by_thing({index: set(things) for index, things in cut.items()})
    return {thing: Cuts([faults[index] for index in indices]) for thing, indices in found.items()}
