"""Bytes that each NIC moved before, while and after the fault: the evidence that traffic really went elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaos.record.lines import Counters
from reports.reading import series
from reports.reading.trace import NicId, Trace


@dataclass(frozen=True)
class BytesRow:
    """One NIC of one arm. Rates are the mean of sent bits; `share` is the rate's part of the highest in the table."""

    nic: NicId
    faulted: bool
    total_tx_bytes: int
    total_rx_bytes: int
    spans: list[tuple[str, series.Span, float]]
    """Period, what moved, mean Gbit/s sent."""


def rows(trace: Trace, faulted: Sequence[NicId], totals: Mapping[str, Mapping[str, Counters]]) -> list[BytesRow]:
    """One row a NIC. `totals` are the summary's bytes_per_nic (host, NIC, counter), so that page and summary agree."""
    found = sorted(trace.samples)
    return [_row(trace, nic, nic in faulted, totals.get(nic.host, {}).get(nic.nic)) for nic in found]


def peak_gbit(table: Sequence[BytesRow]) -> float:
    """The highest mean rate in a table, for the bars; never 0."""
    return max((rate for row in table for _, _, rate in row.spans), default=0.0) or 1.0


def _row(trace: Trace, nic: NicId, hit: bool, total: Counters | None) -> BytesRow:
    samples = trace.samples[nic]
    first, last = samples.ends()
    periods = [(name, (start, end)) for name, start, end in _periods(trace) if end > start]
    spans = series.moved(samples, [stretch for _, stretch in periods])
    whole: Counters = total or {
        "tx_bytes": last.tx_bytes - first.tx_bytes,
        "rx_bytes": last.rx_bytes - first.rx_bytes,
    }
    rated = [
        (name, span, span.tx_bytes * 8 / 1e9 / span.seconds) for (name, _), span in zip(periods, spans, strict=True)
    ]
    return BytesRow(nic, hit, whole["tx_bytes"], whole["rx_bytes"], rated)


def _periods(trace: Trace) -> list[tuple[str, int, int]]:
    windows, origin, end = trace.windows(), trace.origin_ns(), trace.end_ns()
    if not windows:
        return [("whole run", origin, end)]
    start = windows[0].start_ns
    stop = windows[-1].end_ns or end
    return [("before", origin, start), ("during", start, stop), ("after", stop, end)]
