"""From counters and gaps to the few hundred points a figure can show. Pure functions, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.reading.counters import Columns, Counters
from reports.reading.trace import Delivery, NicId, Trace

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.typing import NDArray

HOLD_NS = 25_000_000
STEP_NS = 10_000_000
MAX_BINS = 300
MIN_BINS = 24
MOST_POINTS = 12_000
"""Bins of all strips of a page together, which keeps it under 1 MB."""
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


@dataclass(frozen=True)
class Envelope:
    """A rate in Gbit/s, bin by bin: its mean, and between two samples the lowest and the highest, so that a dip of one
    sample is seen however many a bin holds."""

    low: list[float]
    mean: list[float]
    high: list[float]


def common_axis(traces: Iterable[Trace]) -> Axis:
    """One axis that fits the longest run, with bins of 50 to 100 ms where that gives a readable number of points; the
    more NICs and arms there are, the fewer."""
    traces = list(traces)
    strips = sum(len(trace.samples) + len(trace.gpus) for trace in traces)
    most = max(MIN_BINS, min(MAX_BINS, MOST_POINTS // max(1, strips)))
    longest = max((t.end_ns() - t.origin_ns() for t in traces), default=MIN_BIN_NS) + 2 * MIN_BIN_NS
    bin_ns = max(MIN_BIN_NS, -(-longest // most // STEP_NS) * STEP_NS)
    return Axis(max(1, -(-longest // bin_ns)), bin_ns)


def rates_gbit(samples: Counters, origin_ns: int, axis: Axis) -> tuple[Envelope, Envelope]:
    """Sent and received rate per bin.

    The sampler writes a line only when a counter changed, so between two far samples the counter stood still and jumped
    at the end: it must not be drawn as a slow slope across an outage.
    """
    held = hold(samples.columns())
    moments = held.t_ns - origin_ns
    return _envelope(moments, held.tx_bytes, axis), _envelope(moments, held.rx_bytes, axis)


def usual_peak(rate: Envelope) -> float:
    """Gbit/s: the highest rate in the usual bin, the median over bytes; 0 where none moved.

    A rare burst does not raise it, nor does a long time with little traffic lower it, however long a bin is.
    """
    import numpy as np

    order = np.argsort(rate.high)
    passed = np.cumsum(np.array(rate.mean)[order])
    return rate.high[int(order[np.searchsorted(passed, passed[-1] / 2)])]


def hold(samples: Columns) -> Columns:
    """Put a copy of the last value right before every sample that comes after a silence."""
    import numpy as np

    late = np.flatnonzero(np.diff(samples.t_ns) > HOLD_NS) + 1
    return Columns(
        np.insert(samples.t_ns, late, samples.t_ns[late] - STEP_NS),
        np.insert(samples.tx_bytes, late, samples.tx_bytes[late - 1]),
        np.insert(samples.rx_bytes, late, samples.rx_bytes[late - 1]),
    )


def bytes_between(samples: Counters, start_ns: int, end_ns: int) -> Span:
    """What a NIC moved between two moments, from its counters interpolated at both."""
    return moved(samples, [(start_ns, end_ns)])[0]


def moved(samples: Counters, stretches: Sequence[tuple[int, int]]) -> list[Span]:
    """The same of several stretches of time, for which a long run's counters are looked through once."""
    import numpy as np

    held = hold(samples.columns())
    seconds = [(end_ns - start_ns) / 1e9 for start_ns, end_ns in stretches]
    if not len(held.t_ns) or not stretches:
        return [Span(0, 0, each) for each in seconds]
    origin = stretches[0][0]
    moments, edges = held.t_ns - origin, np.array(stretches, dtype=np.int64) - origin
    sent, received = (
        np.diff(_at(moments, _grown(each), edges.astype(float)))[:, 0] for each in (held.tx_bytes, held.rx_bytes)
    )
    return [Span(round(tx), round(rx), each) for tx, rx, each in zip(sent, received, seconds, strict=True)]


def _envelope(moments: NDArray[int64], counter: NDArray[int64], axis: Axis) -> Envelope:
    """Mean, lowest and highest rate per bin; a stretch between two samples counts in every bin that it overlaps."""
    import numpy as np

    if len(moments) < 2:
        return Envelope(*([0.0] * axis.bins for _ in range(3)))
    grown = _grown(counter)
    edges = np.arange(axis.bins + 1, dtype=np.int64) * axis.bin_ns
    mean = np.diff(_at(moments, grown, edges.astype(float))) * 8 / axis.bin_ns
    rates = np.append(np.diff(grown) * 8 / np.diff(moments), 0.0)
    first = np.clip(np.searchsorted(moments, edges[:-1], "right") - 1, 0, len(rates) - 1)
    after = np.clip(np.searchsorted(moments, edges[1:], "left"), 0, len(rates) - 1)
    pairs = np.column_stack((first, after)).ravel()
    lowest, highest = (found.reduceat(rates, pairs)[::2] for found in (np.minimum, np.maximum))
    seen = first < after
    low = np.where(seen, np.minimum(lowest, mean), mean)
    high = np.where(seen, np.maximum(highest, mean), mean)
    return Envelope(low.tolist(), mean.tolist(), high.tolist())


def _grown(counter: NDArray[int64]) -> NDArray[int64]:
    """The counter without its falls: that of a NIC which was made anew begins at 0 again."""
    import numpy as np

    return np.concatenate(([0], np.cumsum(np.maximum(np.diff(counter), 0))))


def _at(moments: NDArray[int64], values: NDArray[int64], wanted: NDArray[float64]) -> NDArray[float64]:
    import numpy as np

    found: NDArray[float64] = np.interp(wanted, moments.astype(float), values.astype(float))
    return found


def longest_wait_ms(deliveries: Iterable[Delivery], origin_ns: int, axis: Axis) -> list[float]:
    """Per bin the longest gap between two delivered chunks that overlaps it, over all connections given."""
    import numpy as np

    told = [delivery for delivery in deliveries if delivery.gaps_us]
    worst = np.zeros(axis.bins)
    if not told:
        return worst.tolist()
    gaps = np.concatenate([np.array(delivery.gaps_us) for delivery in told])
    counts = [len(delivery.gaps_us) for delivery in told]
    passed = np.cumsum(gaps)
    before = np.concatenate(([0.0], passed[np.cumsum(counts)[:-1] - 1]))
    starts = np.array([delivery.start_ns - origin_ns for delivery in told])
    ends = np.repeat(starts, counts) + (passed - np.repeat(before, counts)) * 1e3
    first = np.maximum(0, (ends - gaps * 1e3) // axis.bin_ns).astype(int)
    last = np.minimum(axis.bins - 1, ends // axis.bin_ns).astype(int)
    inside = first == last
    np.maximum.at(worst, first[inside], gaps[inside] / 1e3)
    for number in np.flatnonzero(first < last):
        stretch = worst[first[number] : last[number] + 1]
        np.maximum(stretch, gaps[number] / 1e3, out=stretch)
    return worst.tolist()


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


def nics_by_host(traces: Iterable[Trace]) -> dict[str, list[NicId]]:
    """Every NIC seen, grouped by host, in order."""
    found = sorted({nic for trace in traces for nic in trace.samples})
    grouped: dict[str, list[NicId]] = {}
    for nic in found:
        grouped.setdefault(nic.host, []).append(nic)
    return grouped
