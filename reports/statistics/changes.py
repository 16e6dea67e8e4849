"""Where a stored series changed for good: nights that are bad for once are none.

In a stretch, the best split is the one whose sides differ most by Mann and Whitney's standardised U (Pettitt, A
non-parametric approach to the change-point problem, Applied Statistics 28, 1979, uses U itself, which finds changes
near the ends late). Stretches are those of seeded binary segmentation (Kovacs et al., Biometrika 110, 2023), as in the
whole series a change and its undoing hide each other. A split counts when its p-value, times all the splits there
were to choose from (Bonferroni), is below alpha, and the shift is large enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reports.statistics.shift import Shift, ranks_of, shift

FEWEST = 4
"""Figures of a side: fewer in a row may all be bad by chance."""
ALPHA = 0.05
MINIMUM_EFFECT = 0.02
DECAY = 2
"""How much shorter the next stretches are. More stretches cost more in the correction than they find."""
TRIED = 3
"""Of the stretches whose splits stand out most; what stands out less is not tested exactly."""


@dataclass(frozen=True)
class Change:
    """From figure `index` on the series is another one than before it, as far as the changes next to it."""

    index: int
    shift: Shift
    p_adjusted: float


def changes(figures: Sequence[float], *, minimum_effect: float = MINIMUM_EFFECT, alpha: float = ALPHA) -> list[Change]:
    """All changes, oldest first, each with its shift between the stretches on its two sides. ValueError for a figure
    that is not positive."""
    places = sorted(_split(figures, 0, len(figures), minimum_effect, alpha))
    return _measured(figures, places, minimum_effect)


def _split(
    figures: Sequence[float], start: int, stop: int, minimum_effect: float, alpha: float
) -> list[tuple[int, float]]:
    """(index, adjusted p) of the changes between `start` and `stop`."""
    stretches = list(_stretches(stop - start))
    choices = sum(last - first - 2 * FEWEST + 1 for first, last in stretches)
    best = sorted((_best(figures, start + first, start + last) for first, last in stretches), reverse=True)
    for _, place, first, last in best[:TRIED]:
        found = shift(figures[first:place], figures[place:last])
        p = min(1.0, found.p * choices)
        if p < alpha and _large(found, minimum_effect):
            left = _split(figures, start, place, minimum_effect, alpha)
            return [*left, (place, p), *_split(figures, place, stop, minimum_effect, alpha)]
    return []


def _stretches(count: int) -> Iterator[tuple[int, int]]:
    """The whole, and ever shorter ones, each length in as many places as cover the whole twice."""
    layer = 0
    while (length := math.ceil(count / DECAY**layer)) >= 2 * FEWEST:
        places = 2 * math.ceil(DECAY**layer) - 1
        for number in range(places):
            first = round(number * (count - length) / (places - 1)) if places > 1 else 0
            yield first, first + length
        layer += 1


def _best(figures: Sequence[float], start: int, stop: int) -> tuple[float, int, int, int]:
    """(how far U is from what chance gives, in standard deviations; the split; the stretch)."""
    count = stop - start
    ranks, _ = ranks_of(sorted(figures[start:stop]))
    best, most, total = 0, -1.0, 0.0
    for split in range(1, count - FEWEST + 1):
        total += ranks[figures[start + split - 1]]
        away = abs(total - split * (count + 1) / 2) / math.sqrt(split * (count - split) * (count + 1) / 12)
        if split >= FEWEST and away > most:
            best, most = split, away
    return most, start + best, start, stop


def _measured(figures: Sequence[float], places: Sequence[tuple[int, float]], minimum_effect: float) -> list[Change]:
    """Each change between its neighbours: one that is none any more, once they are known, is left out."""
    ends = [0, *(place for place, _ in places), len(figures)]
    found = []
    for number, (place, p) in enumerate(places, 1):
        between = shift(figures[ends[number - 1] : place], figures[place : ends[number + 1]])
        if _large(between, minimum_effect):
            found.append(Change(place, between, p))
    return found


def _large(found: Shift, minimum_effect: float) -> bool:
    return not 1 / (1 + minimum_effect) < found.ratio < 1 + minimum_effect
