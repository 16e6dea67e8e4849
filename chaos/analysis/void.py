"""When a measurement says nothing: the machine was too busy, or not all there, or healthy times varied too much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from chaos.analysis.phases import healthy_indices, healthy_ms
from chaos.analysis.requests import served
from chaos.analysis.rundata import RunData, Span
from chaos.analysis.stats import spread
from harness.units import over

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

CPU_BUSY_MAX = 0.85
HEALTHY_SPREAD_MAX = 0.10
STOLEN_MAX = 0.10
"""A time taken while a hypervisor gave more than this share of the CPU to others is theirs, not ours."""


def busy(data: RunData, spans: Sequence[Span]) -> float | None:
    """Mean share of all cores that was busy during `spans`; None without a sample there."""
    return _mean(data, spans, "busy")


def stolen(data: RunData, spans: Sequence[Span]) -> float | None:
    """Mean share of all cores that a hypervisor gave to others during `spans`; None without a sample
    there, or where none told."""
    return _mean(data, spans, "stolen")


def _mean(data: RunData, spans: Sequence[Span], share: str) -> float | None:
    """Of the busiest machine. A `cpu` line speaks for the time since the line before it, and counts as far as that
    time lies within `spans`."""
    lines = [line for line in data.by_event.get("cpu", []) if share in line]
    hosts = {line["host"] for line in lines}
    means = [_mean_of([line for line in lines if line["host"] == host], spans, share) for host in hosts]
    return max((mean for mean in means if mean is not None), default=None)


def _mean_of(lines: Sequence[dict[str, Any]], spans: Sequence[Span], share: str) -> float | None:
    import numpy as np

    moments = np.array([line["t_ns"] for line in lines], dtype=np.int64)
    overlaps = np.maximum(0, np.diff(_covered(spans, moments)))
    total = int(overlaps.sum())
    shares = np.array([line[share] for line in lines[1:]], dtype=float)
    return float((overlaps * shares).sum()) / total if total else None


def _covered(spans: Sequence[Span], moments: NDArray[int64]) -> NDArray[int64]:
    """How much time of all spans, whether they overlap or not, had passed at each moment; quick, as a long run has
    thousands of spans and more lines. Times are of the first span's beginning, so that their sums are small."""
    import numpy as np

    origin = min((span.start_ns for span in spans), default=0)
    passed = np.zeros(len(moments), dtype=np.int64)
    for edges, sign in (([span.start_ns for span in spans], 1), ([span.end_ns for span in spans], -1)):
        ordered = np.sort(np.array(edges, dtype=np.int64)) - origin
        sums = np.concatenate(([0], np.cumsum(ordered)))
        before = np.searchsorted(ordered, moments - origin, "left")
        passed += sign * (before * (moments - origin) - sums[before])
    return passed


def cpu_busy(data: RunData) -> float | None:
    """The busier of two means: over the healthy iterations (the yardstick), and over all measured ones.

    One mean alone would hide a machine that is too busy under load behind the idle seconds of a stalled arm. What the
    bench does between iterations (filling and checking, which use every core) is no part of what is measured.
    """
    whole = data.whole
    healthy = [whole[index] for index in healthy_indices(data)]
    means = [mean for spans in (healthy, list(whole.values())) if (mean := busy(data, spans)) is not None]
    return max(means, default=None)


def reasons(data: RunData) -> list[str]:
    """Why the run's figures say nothing; empty when they do. Says nothing about correctness, which is never void."""
    found = []
    # requests come at random, and wait for each other: how long they take varies by nature
    share, varied = cpu_busy(data), spread(healthy_ms(data))
    taken = stolen(data, list(data.whole.values()))
    if share is not None and share > CPU_BUSY_MAX:
        found.append(f"the machine's CPU was {_share(share, CPU_BUSY_MAX)} busy (limit {CPU_BUSY_MAX:.0%})")
    if taken is not None and taken > STOLEN_MAX:
        told = _share(taken, STOLEN_MAX)
        found.append(f"a hypervisor gave {told} of the machine's CPU to others (limit {STOLEN_MAX:.0%})")
    if varied is not None and varied > HEALTHY_SPREAD_MAX and not served(data):
        told = _share(varied, HEALTHY_SPREAD_MAX)
        found.append(f"healthy iterations varied by {told} (limit {HEALTHY_SPREAD_MAX:.0%})")
    return found


def _share(value: float, limit: float) -> str:
    return over(value, limit, lambda share, digits: f"{share:.{digits}%}", 0)
