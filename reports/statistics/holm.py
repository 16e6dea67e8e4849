"""Several questions of one measurement: the chance of any false alarm stays what one question's may be.

Source: Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979).
"""

from __future__ import annotations

from collections.abc import Sequence


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Each p-value as it counts among all of them, in the same order; at most 1."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    found, least = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[index]))
        found[index] = least
    return found
