"""Which iterations of a run were healthy, hit, degraded or after; every figure starts from this sorting."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from chaos.analysis.rundata import FaultTimes, Line, RunData, Span
from harness.workloads.reading.steps import REQUESTS

SETTLE_NS = 1_000_000_000
"""Time that the return to the home NIC may take (design page 10: within 1 s)."""


def healthy_indices(data: RunData) -> list[int]:
    """Whole iterations that ended before the first fault's onset; all of them in a run without a fault.

    Iterations after a revert are not among them: a slow return would otherwise raise its own yardstick.
    """
    return alike(data, before_faults(data))


def before_faults(data: RunData) -> list[int]:
    """The same, of whatever size."""
    onsets = [fault.onset_ns for fault in data.faults if fault.onset_ns is not None]
    limit = min(onsets, default=None)
    return [index for index, span in data.whole.items() if limit is None or span.end_ns < limit]


def alike(data: RunData, indices: list[int]) -> list[int]:
    """Those of one size, where a program goes through several: only these can be compared. The size is that of the
    iteration that the first fault hit, else the largest."""
    sizes = {size for size, _ in data.busbw_GBps.values()}
    if len(sizes) < 2:
        return indices
    hit = (index for fault in data.faults if (index := struck_index(data, fault)) in data.busbw_GBps)
    first = next(hit, None)
    size = max(sizes) if first is None else data.busbw_GBps[first][0]
    return [index for index in indices if data.busbw_GBps.get(index, (0, 0.0))[0] == size]


def healthy_ms(data: RunData) -> list[float]:
    durations = data.durations_ms
    return [durations[index] for index in healthy_indices(data)]


def hit_index(data: RunData, fault: FaultTimes) -> int | None:
    """The measured iteration in flight when the fault took effect; None: the fault missed.

    It took effect between the issue of its command and the command's return, over SSH some 10 ms later: where no rank
    was in an iteration at the first, the one in flight at the second was hit. Where all had ended before the command
    returned, it may have struck nothing: that is a miss.
    """
    if fault.onset_ns is None or _over_before(data, fault):
        return None
    index = _in_flight(data, fault.onset_ns)
    if index is None:
        index = _sent_during(data, fault)
    return index if index is not None or fault.struck_ns is None else _in_flight(data, fault.struck_ns)


def struck_index(data: RunData, fault: FaultTimes) -> int | None:
    """The same, and of programs that time a part of what they do: what the fault met there."""
    index = hit_index(data, fault)
    return _hit_in_row(data, fault) if index is None else index


def _hit_in_row(data: RunData, fault: FaultTimes) -> int | None:
    """nccl-tests only. Where in its row an iteration lies is a guess, and some operations of a row are not timed: the
    row in which the fault struck stalled in one of these, and this is the iteration beside which that counts. Or the
    first that began while the fault lasted: it met it.
    """
    if fault.onset_ns is None or data.start is None or "program" not in data.start:
        return None
    struck_ns = fault.struck_ns or fault.onset_ns
    until_ns = fault.reverted_ns
    stalls = beside(data)
    for line in stalls:
        began_ns, ended_ns = line["row_ns"]
        if began_ns <= struck_ns <= ended_ns and line["beside_ms"] > usual_beside_ms(data, stalls):
            return int(line["index"])
    begun = sorted((span.start_ns, index) for index, span in data.whole.items())
    if _over_before(data, fault) or not begun or begun[0][0] > struck_ns:
        return None
    met = (index for start_ns, index in begun if start_ns >= struck_ns and (until_ns is None or start_ns <= until_ns))
    return next(met, None)


def beside(data: RunData) -> list[Line]:
    """Iterations beside which operations that the program does not time took longer than usual."""
    return [line for line in data.by_event.get("iteration", []) if line.get("beside_ms", 0) > 0 and "row_ns" in line]


def usual_beside_ms(data: RunData, stalls: Sequence[Line]) -> float:
    """How much longer these took where no fault was: a program makes its data and checks it there."""
    faults = [
        Span(fault.onset_ns, fault.reverted_ns + SETTLE_NS if fault.reverted_ns is not None else sys.maxsize)
        for fault in data.faults
        if fault.onset_ns is not None and not fault.missed
    ]
    quiet = (line for line in stalls if not any(fault.overlaps(Span(*line["row_ns"])) for fault in faults))
    return max((line["beside_ms"] for line in quiet), default=0.0)


def _over_before(data: RunData, fault: FaultTimes) -> bool:
    """No iteration was in flight when the fault's command returned, nor later."""
    if fault.struck_ns is None or not data.iterations:
        return False
    ended = max(span.end_ns for spans in data.iterations.values() for span in spans.values())
    progress = data.by_event.get("progress", [])
    begun = max((line["index"] for line in progress), default=-1) > max(data.iterations)
    return ended < fault.struck_ns and not begun


def _in_flight(data: RunData, at_ns: int) -> int | None:
    """Ranks do not end together: of two iterations in flight, the one that more ranks were in, or else the later."""
    inside = {
        index: sum(span.start_ns <= at_ns <= span.end_ns for span in spans.values())
        for index, spans in data.iterations.items()
    }
    index = max(inside, key=lambda index: (inside[index], index), default=None)
    return index if index is not None and inside[index] > 0 else _unfinished(data, at_ns)


def _unfinished(data: RunData, at_ns: int) -> int | None:
    """An iteration that started before then and that no rank finished, because the run ended in it."""
    started = [
        line
        for line in data.by_event.get("progress", [])
        if line["index"] >= 0 and line["start_ns"] <= at_ns and line["index"] not in data.iterations
    ]
    return max((line["index"] for line in started), default=None)


def _sent_during(data: RunData, fault: FaultTimes) -> int | None:
    """Requests do not come one after the other: the first that was sent while the fault lasted was hit, too."""
    if data.start is None or data.start["op"] != REQUESTS or fault.onset_ns is None:
        return None
    until_ns = fault.reverted_ns
    sent = [line for line in data.by_event.get("progress", []) if line["index"] >= 0]
    during = (
        line["index"]
        for line in sent
        if line["start_ns"] >= fault.onset_ns and (until_ns is None or line["start_ns"] <= until_ns)
    )
    return min(during, default=None)


def degraded_indices(data: RunData, fault: FaultTimes) -> list[int]:
    """Whole iterations that started after the onset and ended before the undo was issued."""
    if fault.onset_ns is None or fault.reverted_ns is None:
        return []
    return alike(data, during(data, fault))


def during(data: RunData, fault: FaultTimes) -> list[int]:
    """The same, of whatever size."""
    if fault.onset_ns is None or fault.reverted_ns is None:
        return []
    return _within(data, fault.onset_ns, fault.reverted_ns)


def struck_indices(data: RunData, fault: FaultTimes) -> list[int]:
    """Whole iterations that were under way at any time from the onset to the undo, and while things settled."""
    if fault.onset_ns is None:
        return []
    until_ns = None if fault.reverted_ns is None else fault.reverted_ns + SETTLE_NS
    found = [
        index
        for index, span in data.whole.items()
        if span.end_ns >= fault.onset_ns and (until_ns is None or span.start_ns <= until_ns)
    ]
    return alike(data, found)


def after_indices(data: RunData, fault: FaultTimes, settle_ns: int = 0) -> list[int]:
    """Whole iterations that started after the fault was undone (and `settle_ns` more)."""
    if fault.reverted_ns is None:
        return []
    return alike(data, _within(data, fault.reverted_ns + settle_ns, None))


def undisturbed_indices(data: RunData) -> list[int]:
    """Whole iterations that no fault may have touched: before the first one, or settled after the last one."""
    late = [set(after_indices(data, fault, SETTLE_NS)) for fault in data.faults if not fault.missed]
    return sorted(set(healthy_indices(data)) | (set.intersection(*late) if late else set()))


def _within(data: RunData, start_ns: int, end_ns: int | None) -> list[int]:
    return [
        index
        for index, span in data.whole.items()
        if span.start_ns > start_ns and (end_ns is None or span.end_ns < end_ns)
    ]


def pick(values: dict[int, float], indices: Sequence[int]) -> list[float]:
    return [values[index] for index in indices]
