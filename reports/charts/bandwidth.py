"""Bandwidth of every NIC over time: one strip a NIC, the fault shaded, the faulted NIC in its own colour."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.charts import svg
from reports.charts.frame import (
    LEFT,
    RIGHT,
    WIDTH,
    Figure,
    Key,
    Panel,
    empty,
    panel,
    shade,
    time_axis,
    time_scale,
    window_s,
)
from reports.reading import series
from reports.reading.counters import Counters
from reports.reading.series import Envelope
from reports.reading.trace import NicId, Trace

GAP = 7.0
TOP = 20.0
MARK = 3.0
ABOVE = 1.02
"""What is marked is more than rounding over the top."""
ROOM = 3.0
"""Where no NIC's rate is known, bursts of up to so many times the usual peak are drawn as they are."""


Rates = dict[tuple[str, NicId], tuple[Envelope, Envelope]]
"""What each NIC sent and received, by arm."""


@dataclass(frozen=True)
class Strips:
    """How a panel draws its NICs: all panels of a figure share it, so that they can be compared."""

    rates: Rates
    axis: series.Axis
    full_gbit: float
    """The top of every strip; what is above it is marked."""
    faulted: Sequence[NicId]
    height: float
    name: str
    detailed: bool


def figure(traces: Sequence[Trace], faulted: Sequence[NicId], known_gbit: Mapping[NicId, float]) -> Figure:
    """The NICs of the faulted hosts for everyone to see, those of the other hosts behind a fold.

    `known_gbit`: the rates of NICs as far as they are known; 0 to their highest is what a strip then shows.
    """
    axis = series.common_axis(traces)
    rates = {
        (trace.arm, nic): series.rates_gbit(counters, origin_ns, axis)
        for trace, origin_ns in ((trace, trace.origin_ns()) for trace in traces)
        for nic, counters in trace.samples.items()
    }
    scale = _scaling(rates, max((known_gbit[nic] for _, nic in rates if nic in known_gbit), default=0.0))
    hosts = series.nics_by_host(traces)
    main = [h for h in hosts if any(n.host == h for n in faulted)] or list(hosts)[:1]
    rest = [h for h in hosts if h not in main]
    large = Strips(rates, axis, scale.full_gbit, faulted, 50.0, "bandwidth", detailed=True)
    small = Strips(rates, axis, scale.full_gbit, faulted, 22.0, "bandwidth-rest", detailed=False)
    return Figure(
        id="bandwidth",
        title="Bandwidth of each NIC over time",
        caption=_caption(main, axis, scale, hit=bool(faulted)),
        panels=[_panel(t, [n for h in main for n in hosts[h]], large) for t in traces],
        keys=[
            Key("area-faulted", "sent, faulted NIC"),
            Key("area-nic", "sent, other NICs"),
            Key("band", "between the lowest and the highest moment"),
            Key("rx", "received"),
            *([Key("above", "above the scale")] if scale.exceeded else []),
            Key("window", "fault on"),
        ],
        more=[_panel(t, [n for h in rest for n in hosts[h]], small) for t in traces] if rest else [],
        more_title=f"The other {'host' if len(rest) == 1 else f'{len(rest)} hosts'}: {', '.join(rest)}",
    )


@dataclass(frozen=True)
class Scaling:
    """`full_gbit` is the top of the strips and `what` says why; `most_gbit` is the highest burst."""

    full_gbit: float
    what: str
    most_gbit: float

    @property
    def exceeded(self) -> bool:
        return self.most_gbit > self.full_gbit * ABOVE


def _scaling(rates: Rates, known_gbit: float) -> Scaling:
    """A burst between two samples may be many times the rate of its NIC: a scale that fits it would show nothing else.

    Where no rate is known (0.0), what is usual bounds the scale. The highest mean would not do: the more NICs there
    are, the longer is the time that one point stands for, and the lower may its mean be.
    """
    each = [rate for pair in rates.values() for rate in pair]
    most = max((value for rate in each for value in rate.high), default=0.0)
    if known_gbit:
        return Scaling(known_gbit, "the rate of the fastest NIC", most)
    mean = max((value for rate in each for value in rate.mean), default=0.0)
    fitting = max(mean, ROOM * max(map(series.usual_peak, each), default=0.0))
    if most <= fitting:
        return Scaling(most, "the highest rate between two samples", most)
    return Scaling(fitting, "room for all but rare bursts", most)


def mean_gbit(trace: Trace, nic: NicId) -> float | None:
    """Mean rate that a NIC sent while the first fault was on; None when there was none or it was never reverted."""
    windows = [w for w in trace.windows()[:1] if w.end_ns]
    if not windows:
        return None
    span = series.bytes_between(trace.samples.get(nic, Counters()), windows[0].start_ns, windows[0].end_ns or 0)
    return span.tx_bytes * 8 / 1e9 / max(span.seconds, 1e-9)


def _caption(main: Sequence[str], axis: series.Axis, scale: Scaling, *, hit: bool) -> str:
    where = f"The NICs of {', '.join(main)}{', where the fault was' if hit else ''}."
    said = (
        f"Every strip goes from 0 to {scale.full_gbit:.2f} Gbit/s, {scale.what}; each point is the mean of "
        f"{_length(axis)}, the darker band goes from the lowest to the highest rate between two samples in it."
    )
    if scale.exceeded:
        said += f" A bar on top of a strip marks bursts above that, up to {scale.most_gbit:.2f} Gbit/s."
    inside = "The number is the mean rate sent while the fault was on: an empty strip carries nothing."
    return f"{where} {said} {inside}" if hit else f"{where} {said}"


def _panel(trace: Trace, nics: Sequence[NicId], strips: Strips) -> Panel:
    if not any(nic in trace.samples for nic in nics):
        return empty(trace, strips.name, "no byte counters in the journal")
    scale = time_scale(strips.axis)
    bottom = TOP + len(nics) * (strips.height + GAP) - GAP
    parts = [shade(trace, scale, TOP, bottom)]
    parts += [_strip(trace, nic, TOP + row * (strips.height + GAP), strips) for row, nic in enumerate(nics)]
    parts.append(time_axis(scale, bottom + 4))
    return panel(trace, strips.name, bottom + 26, parts, title="Bandwidth over time", text=_describe(trace, nics))


def _strip(trace: Trace, nic: NicId, top: float, strips: Strips) -> str:
    nothing = Envelope(*([0.0] * strips.axis.bins for _ in range(3)))
    tx, rx = strips.rates.get((trace.arm, nic), (nothing, nothing))
    bottom, hit = top + strips.height, nic in strips.faulted
    across = svg.Scale(0, strips.axis.bins, LEFT, WIDTH - RIGHT)
    up = svg.Scale(0, strips.full_gbit or 1.0, bottom, top)
    area = [(across(0), bottom), *_points(tx.mean, across, up), (across.end, bottom)]
    band = [*_points(tx.high, across, up), *reversed(_points(tx.low, across, up))]
    label = nic.nic if strips.detailed else f"{nic.host} {nic.nic.removeprefix('eth')}"
    parts = [
        svg.line(LEFT, bottom, WIDTH - RIGHT, bottom, "grid"),
        svg.path(area, "area-faulted" if hit else "area-nic", close=True),
        svg.path(band, "band band-faulted" if hit else "band", close=True),
        svg.text(LEFT - 5, (top + bottom) / 2 + 4, label, "label faulted" if hit else "label", "end"),
    ]
    parts += _above(tx, rx, strips.full_gbit, across, top)
    if strips.detailed:
        parts.append(svg.path(_points(rx.mean, across, up), "rx"))
        parts.append(_rate_inside(trace, nic, strips.axis, bottom))
    return "".join(parts)


def _above(tx: Envelope, rx: Envelope, full_gbit: float, across: svg.Scale, top: float) -> list[str]:
    """A bar over each stretch in which more was sent or received than the strip can show."""
    highest = [max(pair) for pair in zip(tx.high, rx.high, strict=True)]
    parts = []
    for over, group in itertools.groupby(enumerate(highest), lambda item: item[1] > full_gbit * ABOVE):
        found = list(group)
        if over:
            left, right = across(found[0][0]), across(found[-1][0] + 1)
            title = f"up to {max(value for _, value in found):.2f} Gbit/s"
            parts.append(svg.rect(left, top - MARK, right - left, MARK, cls="above", title=title))
    return parts


def _points(values: Sequence[float], across: svg.Scale, up: svg.Scale) -> list[tuple[float, float]]:
    return [(across(i + 0.5), up(v)) for i, v in enumerate(values)]


def _length(axis: series.Axis) -> str:
    return f"{axis.bin_ns / 1e9:g} s" if axis.bin_ns >= 1_000_000_000 else f"{axis.bin_ns // 1_000_000} ms"


def _rate_inside(trace: Trace, nic: NicId, axis: series.Axis, bottom: float) -> str:
    """The mean rate while the (first) fault was on, written where it was on."""
    rate = mean_gbit(trace, nic)
    if rate is None:
        return ""
    start, end = window_s(trace, trace.windows()[0], axis.span_s)
    scale = time_scale(axis)
    return svg.text((scale(start) + scale(end)) / 2, bottom - 5, f"{rate:.2f}", "label", "middle")


def _describe(trace: Trace, nics: Sequence[NicId]) -> str:
    rates = [(nic, mean_gbit(trace, nic)) for nic in nics]
    known = [f"{nic}: {rate:.2f} Gbit/s sent" for nic, rate in rates if rate is not None]
    return (
        f"Mean while the fault was on: {'; '.join(known)}." if known else "No fault was on, or it was never reverted."
    )
