"""Bus bandwidth of each message size, as nccl-tests says it: before the first fault, and while one lasts. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from chaos.analysis.bounds import degraded_bound_ms
from chaos.analysis.phases import before_faults, during, healthy_ms
from chaos.analysis.rundata import RunData
from chaos.analysis.stats import median

Named = list[tuple[str, int, float | None, float | None]]
"""(name, size in bytes, GB/s, bound in GB/s)."""


def figures(data: RunData, mode: int) -> Named:
    """None for programs that do not say it. While a fault lasts the bound is what its NICs leave of the healthy
    bandwidth, the same share at every size."""
    healthy = _medians(data, before_faults(data))
    degraded = _medians(data, (index for fault in data.faults for index in during(data, fault)))
    share = _left(data, mode)
    found: Named = [("busbw", size, value, None) for size, value in healthy.items()]
    for size, value in degraded.items():
        usual = healthy.get(size)
        found.append(("busbw_degraded", size, value, None if share is None or usual is None else share * usual))
    return found


def _left(data: RunData, mode: int) -> float | None:
    """The share of the healthy bandwidth that can be had while the first fault lasts that has a bound."""
    usual = median(healthy_ms(data))
    bounds = (degraded_bound_ms(data, fault, mode) for fault in data.faults)
    bound = next((each for each in bounds if each is not None), None)
    return usual / bound if usual and bound else None


def _medians(data: RunData, indices: Iterable[int]) -> dict[int, float]:
    by_size: dict[int, list[float]] = defaultdict(list)
    for index in sorted(set(indices)):
        if index in data.busbw_GBps:
            size, value = data.busbw_GBps[index]
            by_size[size].append(value)
    return {size: middle for size, values in sorted(by_size.items()) if (middle := median(values)) is not None}
