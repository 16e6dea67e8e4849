"""What NICs carried and how long iterations took, over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.papers import style
from reports.reading import series
from reports.reading.rundir import RunDir
from reports.reading.trace import NicId, Trace
from reports.words import names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_NICS = 8
"""Lines in one panel that can still be told apart."""


def bandwidth(figure: Figure, run: RunDir, traces: Sequence[Trace]) -> None:
    """What the NICs of the hosts with a fault sent: a panel for each arm, all with the same axes."""
    import numpy as np

    axis = series.common_axis(traces)
    faulted = run.faulted()
    panels = figure.subplots(len(traces), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    middles = (np.arange(axis.bins) + 0.5) * axis.bin_ns / 1e9
    for panel, trace in zip(panels, traces, strict=True):
        style.shade(panel, [trace])
        for place, nic in enumerate(_shown(trace, faulted)):
            rate = series.rates_gbit(trace.samples[nic], trace.origin_ns(), axis)[0].mean
            colour = style.FAULT if nic in faulted else style.COLOURS[place % len(style.COLOURS)]
            panel.plot(middles, rate, color=colour, linestyle=style.DASHES[place % len(style.DASHES)], label=str(nic))
        panel.set_title(names.arm(trace.arm), loc="left")
        panel.set_ylabel("Gbit/s sent")
        panel.set_ylim(bottom=0)
    panels[-1].set_xlabel("time (s)")
    handles, labels = panels[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper center", ncols=4)


def _shown(trace: Trace, faulted: Sequence[NicId]) -> list[NicId]:
    """Those with a fault first; of all hosts where no fault was."""
    hosts = {nic.host for nic in faulted} or {nic.host for nic in trace.samples}
    found = [nic for nic in sorted(trace.samples) if nic.host in hosts]
    return sorted(found, key=lambda nic: nic not in faulted)[:MOST_NICS]


def iterations(figure: Figure, traces: Sequence[Trace]) -> None:
    """How long each iteration took: a line from its start to its end, all arms in one panel, on a logarithmic scale."""
    axes = figure.subplots()
    style.shade(axes, traces)
    looks = style.by_arm([trace.arm for trace in traces])
    for trace in traces:
        colour, marker = looks[trace.arm]
        across: list[float] = []
        up: list[float] = []
        for index, ms in trace.iteration_ms().items():
            begun_s = (min(start for start, _ in trace.iterations[index]) - trace.origin_ns()) / 1e9
            across += [begun_s, begun_s + ms / 1e3, math.nan]
            up += [ms, ms, math.nan]
        axes.plot(across, up, color=colour, marker=marker, ms=2.5, label=names.arm(trace.arm))
    axes.set_yscale("log")
    axes.set_xlabel("time (s)")
    axes.set_ylabel("iteration (ms)")
    figure.legend(loc="outside upper center", ncols=len(traces))
