"""How far one sample lies from another, and whether chance would do that: Hodges-Lehmann and Mann-Whitney.

Sources: Mann and Whitney (1947); Hodges and Lehmann (1963); the interval: Hollander, Wolfe and Chicken, Nonparametric
Statistical Methods, 3rd edition, 4.2 and 4.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median


@dataclass(frozen=True)
class Shift:
    """`ratio`: by what the typical `after` exceeds the typical `before` (1.05: 5 % more), with its 95 % interval."""

    ratio: float
    low: float
    high: float
    p: float
    """Two-sided; exact unless there are equal values."""


def shift(before: Sequence[float], after: Sequence[float], share: float = 0.95) -> Shift:
    """Of positive figures, by their logarithms, so that it is a ratio. ValueError for fewer than two a side, or a
    figure that is not positive."""
    if min(len(before), len(after)) < 2:
        raise ValueError("at least two figures a side are needed")
    if not all(math.isfinite(value) and value > 0 for value in (*before, *after)):
        raise ValueError("figures must be positive")
    differences = sorted(math.log(b) - math.log(a) for a in before for b in after)
    low, high = _interval(differences, len(before), len(after), share)
    return Shift(math.exp(median(differences)), math.exp(low), math.exp(high), p_value(before, after))


def p_value(before: Sequence[float], after: Sequence[float]) -> float:
    """That two samples of one distribution differ so much, either way; by the normal approximation with ties."""
    ordered = sorted([*before, *after])
    ranks, tied = ranks_of(ordered)
    first, second = len(before), len(after)
    u = sum(ranks[value] for value in after) - second * (second + 1) / 2
    u = max(u, first * second - u)
    if not tied:
        return min(1.0, 2 * sum(_u_counts(first, second)[int(u) :]) / math.comb(first + second, first))
    size = first + second
    variance = first * second / 12 * (size + 1 - tied / (size * (size - 1)))
    above = u - first * second / 2 - 0.5  # 0.5: U is a whole number, the normal distribution has no steps
    return min(1.0, math.erfc(above / math.sqrt(2 * variance))) if variance > 0 else 1.0


def ranks_of(ordered: Sequence[float]) -> tuple[dict[float, float], int]:
    """Each value's rank from 1 on (equal values share the mean of theirs), and what ties take from U's variance."""
    ranks: dict[float, float] = {}
    place = tied = 0
    for value, equal in groupby(ordered):
        count = sum(1 for _ in equal)
        ranks[value] = place + (count + 1) / 2
        place += count
        tied += count**3 - count
    return ranks, tied


def _interval(differences: Sequence[float], before: int, after: int, share: float) -> tuple[float, float]:
    """The order statistics of the pairwise differences that hold the shift so often; all of them where few are."""
    counts, total, tail, place = _u_counts(before, after), math.comb(before + after, before), 0, 0
    while 2 * (tail + counts[place]) <= (1 - share) * total:
        tail += counts[place]
        place += 1
    return differences[max(0, place - 1)], differences[len(differences) - max(1, place)]


def _u_counts(first: int, second: int) -> list[int]:
    """In how many of the orders of two samples Mann and Whitney's U is 0, 1, ...: the Gaussian binomial coefficient."""
    counts = [1] + [0] * (first * second)
    for size in range(1, first + 1):
        for u in range(len(counts) - 1, second + size - 1, -1):
            counts[u] -= counts[u - second - size]
        for u in range(size, len(counts)):
            counts[u] += counts[u - size]
    return counts
