"""How long each arm stood still."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from chaos.analysis.model import Arm, Summary
from reports.papers import style
from reports.words import names
from reports.words.units import ms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FLOOR_MS = 0.1


def measured(summary: Summary) -> tuple[str, Mapping[str, Sequence[float]]]:
    """What is compared, and its values by arm. Stalls; of workloads that know none, the iterations that faults hit."""
    for name, words in (("stall_ms", "stall (ms)"), ("iteration_ms", "iteration with a fault (ms)")):
        found = {arm.name: _values(arm, name) for arm in summary.arms}
        known = {arm: values for arm, values in found.items() if values}
        if known:
            return words, known
    return "", {}


def _values(arm: Arm, name: str) -> list[float]:
    found = (getattr(fault, name) for run in arm.runs for fault in run.faults)
    return [max(FLOOR_MS, float(value)) for value in found if value is not None]


def stalls(figure: Figure, summary: Summary) -> None:
    """A bar for the worst of each arm, a point for each fault of each repeat, on a logarithmic scale."""
    from matplotlib.ticker import NullFormatter

    words, found = measured(summary)
    axes = figure.subplots()
    looks = style.by_arm([*found])
    for place, (arm, values) in enumerate(found.items()):
        axes.barh(place, max(values), color=looks[arm][0], height=0.6)
        axes.annotate(ms(max(values)), (max(values), place), (3, 0), textcoords="offset points", va="center")
        axes.plot(values, [place] * len(values), ".", color="white", markeredgecolor="black", ms=4, markeredgewidth=0.5)
    axes.set_yticks(range(len(found)), [names.arm(arm) for arm in found])
    axes.invert_yaxis()
    axes.set_xscale("log")
    every = [value for values in found.values() for value in values]
    axes.set_xlim(10 ** math.floor(math.log10(min(every) / 1.5)), max(every) * 4)
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(words)
