"""Stall and detection: how long delivery stood still when a fault struck (docs/reference/contracts.md, Definitions)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from chaos.analysis.moves import moves
from chaos.analysis.phases import healthy_indices, healthy_ms
from chaos.analysis.rundata import FaultTimes, Key, RunData, Span
from chaos.analysis.stats import median, percentile
from harness.workloads.reading.steps import OP

DRAIN_NS = 100_000_000
"""Receive buffers hold at most about 6 MB: 50 ms at 1 Gbit/s. Without it a stall of seconds was read as 3 ms once."""


def stall_ms(data: RunData, fault: FaultTimes) -> float | None:
    """Longest delivery gap overlapping the fault's onset, less the connection's healthy p99; maximum over connections.

    The onset is the interval from issuing the command to the probe that confirmed it, because the link changes
    somewhere inside it, and DRAIN_MS more: what has arrived in kernel buffers is still delivered after the link is
    gone, and the gap that the fault causes only begins then. None when no connection had a delivery gap there: nothing
    was measured, which is not 0. Where NCCL's profiler interface tells (libr2cc_progress.so), it is the longest time
    for which a rank moved nothing while an operation was under way, less its longest before the fault.
    """
    told = _told_ms(data, _begins(data, fault), fault)
    return worst_gap_ms(data, onsets(fault)) if told is None else told


def _told_ms(data: RunData, windows: Sequence[Span], fault: FaultTimes) -> float | None:
    """The same of each rank, the most of all; None where nobody counts."""
    onset_ns = fault.onset_ns
    stood: dict[int, list[Span]] = defaultdict(list)
    for line in data.by_event.get("traffic", []):
        began_ns = int(line["stall_began_ns"])
        stood[int(line["rank"])] += [Span(began_ns, began_ns + round(line["stall_us"] * 1e3))] if began_ns else []
    if not stood or onset_ns is None:
        return None
    found = []
    for spans in stood.values():
        usual = max((span.ms for span in spans if span.end_ns < onset_ns), default=0.0)
        struck = [span.ms for span in spans if any(span.overlaps(window) for window in windows)]
        found.append(max(struck, default=0.0) - usual)
    return max(0.0, *found)


def onsets(fault: FaultTimes) -> list[Span]:
    """When a stall may begin."""
    return [Span(span.start_ns, span.end_ns + DRAIN_NS) for span in fault.onsets]


def _begins(data: RunData, fault: FaultTimes) -> list[Span]:
    """When the stall of a program may begin that also computes: its next operation may come as much later as a healthy
    iteration takes, but not after the undo, nor after the next fault."""
    spans = onsets(fault)
    if data.start is None or data.start["op"] != OP:
        return spans
    computes_ns = round((median(healthy_ms(data)) or 0.0) * 1e6)
    ends = sorted({*fault.reverts, *(span.start_ns for other in data.faults for span in other.onsets)})
    until_ns = [min((end for end in ends if end > span.start_ns), default=span.end_ns + computes_ns) for span in spans]
    return [
        Span(span.start_ns, max(span.end_ns, min(span.end_ns + computes_ns, until)))
        for span, until in zip(spans, until_ns, strict=True)
    ]


def longest_gap_ms(data: RunData, fault: FaultTimes) -> float | None:
    """The same for every gap from the onset to the undo: shows stalls that began later, as further down a ring."""
    if fault.onset_ns is None:
        return None
    return worst_gap_ms(data, [Span(fault.onset_ns, fault.reverted_ns or _last_ns(data))])


def worst_gap_ms(data: RunData, windows: Iterable[Span]) -> float | None:
    """The longest gap that overlaps `windows`, less its connection's healthy p99; maximum over connections."""
    healthy = set(healthy_indices(data))
    stalls = [
        stall
        for key in data.deliveries
        for window in windows
        if (stall := _of_connection(data, key, window, healthy)) is not None
    ]
    return max(stalls, default=None)


def _of_connection(data: RunData, key: Key, window: Span, healthy: set[int]) -> float | None:
    """None without a gap in the window, or without healthy gaps to compare with."""
    per_iteration = data.deliveries[key]
    usual = percentile([gap.ms for index in healthy for gap in per_iteration.get(index, [])], 99)
    struck = [gap.ms for gaps in per_iteration.values() for gap in gaps if gap.overlaps(window)]
    if usual is None or not struck:
        return None
    return max(0.0, max(struck) - usual)


def _last_ns(data: RunData) -> int:
    return max((int(line["t_ns"]) for line in data.lines), default=0)


def detect_ms(data: RunData, fault: FaultTimes) -> float | None:
    """From issuing the fault to the first sign, anywhere, that the net library knew; None when it never did (stock)."""
    if fault.onset_ns is None:
        return None
    signs = [
        int(line["t_ns"]) for line in data.by_event.get("nic", []) if line["state"] in ("down", "suspect", "degraded")
    ]
    signs += [int(line["t_ns"]) for line in moves(data) if line["state"] == "frozen"]
    signs += [int(line["t_ns"]) for line in data.by_event.get("path", []) if line["state"] == "failed"]  # of any end
    first = min((t_ns for t_ns in signs if t_ns >= fault.onset_ns), default=None)
    if first is None or (fault.reverted_ns is not None and first > fault.reverted_ns):
        return None
    return (first - fault.onset_ns) / 1e6
