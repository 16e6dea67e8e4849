"""The few statistics that figures use, on plain lists; tested on literal numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Percentile by linear interpolation between order statistics (Hyndman and Fan 1996, type 7); None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(values: Sequence[float]) -> float | None:
    """The middle value, or the mean of the two in the middle; None of nothing."""
    return percentile(values, 50)


def spread(values: Sequence[float]) -> float | None:
    """How much values vary: (p90 - p10) / median, so that one outlier makes no run void; None of nothing."""
    p10, p50, p90 = (percentile(values, percent) for percent in (10, 50, 90))
    if p10 is None or p50 is None or p90 is None or p50 == 0:
        return None
    return (p90 - p10) / p50


def median_interval(values: Sequence[float], share: float = 0.95) -> tuple[float, float]:
    """The narrowest pair of order statistics, as far from one end as from the other, that holds the median as often.

    Exact for independent values of any distribution (Hahn and Meeker, Statistical Intervals, 5.2). The extremes, where
    there are too few values for more. Raises ValueError without any.
    """
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        raise ValueError("no values")
    tail, below = 0.0, 0
    while below < count // 2 and 2 * (tail + comb(count, below) / 2**count) <= 1 - share:
        tail += comb(count, below) / 2**count
        below += 1
    place = max(0, below - 1)
    return ordered[place], ordered[count - 1 - place]
