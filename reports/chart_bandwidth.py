"""Bandwidth of every NIC over time: one strip a NIC, the fault shaded, the faulted NIC in its own colour."""

from __future__ import annotations

from collections.abc import Sequence

from reports import names, series, svg
from reports.charts import LEFT, RIGHT, WIDTH, Figure, Key, Panel, empty, ident, shade, time_axis, time_scale, window_s
from reports.trace import NicId, Trace

STRIP = 50.0
SMALL_STRIP = 22.0
GAP = 7.0
TOP = 20.0


def figure(traces: Sequence[Trace], faulted: Sequence[NicId]) -> Figure:
    """The NICs of the faulted hosts for everyone to see, those of the other hosts behind a fold."""
    axis = series.common_axis(traces)
    peak = series.peak_gbit(traces, axis)
    hosts = series.nics_by_host(traces)
    main = [h for h in hosts if any(n.host == h for n in faulted)] or list(hosts)[:1]
    rest = [h for h in hosts if h not in main]
    panels = [_panel(t, [n for h in main for n in hosts[h]], faulted, axis, peak, STRIP) for t in traces]
    more = (
        [_panel(t, [n for h in rest for n in hosts[h]], faulted, axis, peak, SMALL_STRIP) for t in traces]
        if rest
        else []
    )
    keys = [
        Key("area-faulted", "sent, faulted NIC"),
        Key("area-nic", "sent, other NICs"),
        Key("rx", "received"),
        Key("window", "fault on"),
    ]
    return Figure(
        id="bandwidth",
        title="Bandwidth of each NIC over time",
        caption=_caption(main, axis, peak),
        panels=panels,
        keys=keys,
        more=more,
        more_title=f"The other {len(rest)} host(s): {', '.join(rest)}",
    )


def _caption(main: Sequence[str], axis: series.Axis, peak: float) -> str:
    return (
        f"The NICs of {', '.join(main)}, where the fault was. Every strip goes from 0 to {peak:.2f} Gbit/s; each point is the mean of "
        f"{axis.bin_ns // 1_000_000} ms. The number is the mean rate sent while the fault was on: an empty strip carries nothing."
    )


def _panel(
    trace: Trace, nics: Sequence[NicId], faulted: Sequence[NicId], axis: series.Axis, peak: float, strip: float
) -> Panel:
    name = ident("bandwidth-rest" if strip == SMALL_STRIP else "bandwidth", trace)
    if not any(nic in trace.samples for nic in nics):
        return empty(trace.arm, name, "no byte counters in the journal")
    scale = time_scale(axis)
    bottom = TOP + len(nics) * (strip + GAP) - GAP
    parts = [shade(trace, scale, TOP, bottom)]
    for row, nic in enumerate(nics):
        parts.append(_strip(trace, nic, nic in faulted, axis, peak, TOP + row * (strip + GAP), strip))
    parts.append(time_axis(scale, bottom + 4))
    title = f"Bandwidth over time, {names.arm(trace.arm)}"
    return Panel(trace.arm, svg.document(WIDTH, bottom + 26, title, _describe(trace, nics), "".join(parts), name))


def _strip(trace: Trace, nic: NicId, hit: bool, axis: series.Axis, peak: float, top: float, height: float) -> str:
    tx, rx = series.rates_gbit(trace.samples.get(nic, []), trace.origin_ns(), axis)
    across = svg.Scale(0, axis.bins, LEFT, WIDTH - RIGHT)
    up = svg.Scale(0, peak or 1.0, top + height, top)
    small = height < STRIP
    name = svg.text(LEFT - 5, top + height / 2 + 4, _short(nic, small), "label faulted" if hit else "label", "end")
    area = [(across(0), up(0)), *[(across(i + 0.5), up(v)) for i, v in enumerate(tx)], (across(axis.bins), up(0))]
    received = "" if small else svg.path([(across(i + 0.5), up(v)) for i, v in enumerate(rx)], "rx")
    base = svg.line(LEFT, up(0), WIDTH - RIGHT, up(0), "grid")
    inside = "" if small else _rate_inside(trace, nic, axis, top + height)
    return base + svg.path(area, "area-faulted" if hit else "area-nic", close=True) + received + name + inside


def _rate_inside(trace: Trace, nic: NicId, axis: series.Axis, bottom: float) -> str:
    """The mean rate while the (first) fault was on, written where it was on."""
    rate = mean_gbit(trace, nic)
    if rate is None:
        return ""
    start, end = window_s(trace, trace.windows()[0], axis.span_s)
    scale = time_scale(axis)
    return svg.text((scale(start) + scale(end)) / 2, bottom - 5, f"{rate:.2f}", "label", "middle")


def mean_gbit(trace: Trace, nic: NicId) -> float | None:
    """Mean rate that a NIC sent while the first fault was on; None when there was none or it was never reverted."""
    windows = [w for w in trace.windows()[:1] if w.end_ns]
    if not windows:
        return None
    span = series.bytes_between(trace.samples.get(nic, []), windows[0].start_ns, windows[0].end_ns or 0)
    return span.tx_bytes * 8 / 1e9 / max(span.seconds, 1e-9)


def _short(nic: NicId, with_host: bool) -> str:
    return f"{nic.host} {nic.nic[-1:]}" if with_host else nic.nic


def _describe(trace: Trace, nics: Sequence[NicId]) -> str:
    rates = [(nic, mean_gbit(trace, nic)) for nic in nics]
    known = [f"{nic}: {rate:.2f} Gbit/s sent" for nic, rate in rates if rate is not None]
    return (
        f"Mean while the fault was on: {'; '.join(known)}." if known else "No fault was on, or it was never taken back."
    )
