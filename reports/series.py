"""From counters and gaps to the few hundred points a figure can show. Pure functions, no I/O."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reports.trace import Delivery, NicId, Sample, Trace

HOLD_NS = 25_000_000
STEP_NS = 10_000_000
MAX_BINS = 300
MIN_BIN_NS = 50_000_000


@dataclass(frozen=True)
class Axis:
    """The common time axis of a report: seconds since the first iteration began, cut into equal bins."""

    bins: int
    bin_ns: int

    @property
    def span_s(self) -> float:
        """Length of the axis."""
        return self.bins * self.bin_ns / 1e9


@dataclass(frozen=True)
class Span:
    """Bytes that a NIC moved in one stretch of time, and how long that was."""

    tx_bytes: int
    rx_bytes: int
    seconds: float


def common_axis(traces: Iterable[Trace]) -> Axis:
    """One axis that fits the longest run, with bins of 50 to 100 ms where that gives a readable number of points."""
    longest = max((t.end_ns() - t.origin_ns() for t in traces), default=MIN_BIN_NS) + 2 * MIN_BIN_NS
    bin_ns = max(MIN_BIN_NS, -(-longest // MAX_BINS // STEP_NS) * STEP_NS)
    return Axis(max(1, -(-longest // bin_ns)), bin_ns)


def rates_gbit(samples: Sequence[Sample], origin_ns: int, axis: Axis) -> tuple[list[float], list[float]]:
    """Sent and received rate per bin.

    The sampler writes a line only when a counter changed, so between two far samples the counter stood still and jumped
    at the end: it must not be drawn as a slow slope across an outage.
    """
    held = hold(samples)
    edges = [origin_ns + i * axis.bin_ns for i in range(axis.bins + 1)]
    tx = _at([(s.t_ns, s.tx_bytes) for s in held], edges)
    rx = _at([(s.t_ns, s.rx_bytes) for s in held], edges)
    return _slopes(tx, axis.bin_ns), _slopes(rx, axis.bin_ns)


def hold(samples: Sequence[Sample]) -> list[Sample]:
    """Put a copy of the last value right before every sample that comes after a silence."""
    out: list[Sample] = []
    for sample in samples:
        if out and sample.t_ns - out[-1].t_ns > HOLD_NS:
            out.append(Sample(sample.t_ns - STEP_NS, out[-1].tx_bytes, out[-1].rx_bytes))
        out.append(sample)
    return out


def bytes_between(samples: Sequence[Sample], start_ns: int, end_ns: int) -> Span:
    """What a NIC moved between two moments, from its counters interpolated at both."""
    held = hold(samples)
    tx = _at([(s.t_ns, s.tx_bytes) for s in held], [start_ns, end_ns])
    rx = _at([(s.t_ns, s.rx_bytes) for s in held], [start_ns, end_ns])
    return Span(round(tx[1] - tx[0]), round(rx[1] - rx[0]), (end_ns - start_ns) / 1e9)


def longest_wait_ms(deliveries: Iterable[Delivery], origin_ns: int, axis: Axis) -> list[float]:
    """Per bin the longest gap between two delivered chunks that overlaps it, over all connections given."""
    worst = [0.0] * axis.bins
    for delivery in deliveries:
        now = float(delivery.start_ns - origin_ns)
        for gap_us in delivery.gaps_us:
            _raise(worst, now, now + gap_us * 1e3, gap_us / 1e3, axis)
            now += gap_us * 1e3
    return worst


def longest_gap_ms(deliveries: Iterable[Delivery], first_ns: int, last_ns: int) -> tuple[float, float] | None:
    """Start and end, in ms from `first_ns`, of the longest gap that overlaps the time from `first_ns` to `last_ns`."""
    best: tuple[float, float] | None = None
    for delivery in deliveries:
        now = float(delivery.start_ns)
        for gap_us in delivery.gaps_us:
            start, now = now, now + gap_us * 1e3
            if start <= last_ns and now >= first_ns and (best is None or now - start > best[1] - best[0]):
                best = (start, now)
    return None if best is None else ((best[0] - first_ns) / 1e6, (best[1] - first_ns) / 1e6)


def _raise(worst: list[float], start: float, end: float, gap_ms: float, axis: Axis) -> None:
    first = max(0, int(start // axis.bin_ns))
    last = min(axis.bins - 1, int(end // axis.bin_ns))
    for i in range(first, last + 1):
        worst[i] = max(worst[i], gap_ms)


def peak_gbit(traces: Iterable[Trace], axis: Axis) -> float:
    """The highest rate that any NIC reaches, which every panel's vertical axis shares."""
    best = 0.0
    for trace in traces:
        for samples in trace.samples.values():
            tx, rx = rates_gbit(samples, trace.origin_ns(), axis)
            best = max(best, *tx, *rx)
    return best


def nics_by_host(traces: Iterable[Trace]) -> dict[str, list[NicId]]:
    """Every NIC seen, grouped by host, in order."""
    found = sorted({nic for trace in traces for nic in trace.samples})
    grouped: dict[str, list[NicId]] = {}
    for nic in found:
        grouped.setdefault(nic.host, []).append(nic)
    return grouped


def _at(points: Sequence[tuple[int, int]], moments: Sequence[int]) -> list[float]:
    if not points:
        return [0.0] * len(moments)
    times = [t for t, _ in points]
    return [_one(points, bisect_right(times, moment), moment) for moment in moments]


def _one(points: Sequence[tuple[int, int]], after: int, moment: int) -> float:
    if after == 0:
        return float(points[0][1])
    if after == len(points):
        return float(points[-1][1])
    (t0, v0), (t1, v1) = points[after - 1], points[after]
    return v0 + (v1 - v0) * (moment - t0) / max(1, t1 - t0)


def _slopes(values: Sequence[float], bin_ns: int) -> list[float]:
    return [max(0.0, (b - a) * 8 / bin_ns) for a, b in itertools.pairwise(values)]
