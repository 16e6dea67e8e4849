"""How long delivery stands still: median, p99 and maximum over many faults, of two kinds.

    .venv/bin/python benchmarks/stall_distribution.py [--faults 24] [--arm migrate] [--rate 0.25] [--json]

A fault counts when a collective was in flight and a connection moved off the NIC; there must be at least 20 of each.
All of them are judged. Shown beside them: those around which no hypervisor gave more than a tenth of the CPU to others,
and the floor, which is the same measure over windows as long in which nothing was broken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import click
from common import Figure, Ran, Steps, command, experiment, hosts_option, lab_workload, median_of, spread_faults

from chaos.analysis import void
from chaos.analysis.phases import SETTLE_NS
from chaos.analysis.rundata import RunData, Span
from chaos.analysis.stall import onsets, worst_gap_ms
from chaos.analysis.stats import percentile
from chaos.soak.judge import fates

BOUNDS_MS = {"link_down": 10.0, "black_hole": 50.0}
LEAST = 20
PER_STEP = 26
EVERY_S, DOWN_S = 3.5, 1.5
NICS = 4


@dataclass
class Found:
    """What the runs of one kind showed, in ms."""

    stalls: list[float] = field(default_factory=list)
    not_stolen: list[float] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)
    void: bool = False

    def add(self, ran: Ran) -> None:
        """Sorts the faults of a run that hit and moved something, and its windows without a fault."""
        moving = {fate.id for fate in fates(ran.data.lines) if fate.moved}
        for fault in ran.figures["faults"]:
            if not fault["hit"] or fault["id"] not in moving or fault["stall_ms"] is None:
                continue
            self.stalls.append(fault["stall_ms"])
            if (fault["stolen"] or 0.0) <= void.STOLEN_MAX:
                self.not_stolen.append(fault["stall_ms"])
        self.floor += floor(ran.data)
        self.void |= ran.void


def floor(data: RunData) -> list[float]:
    """The stall that would be found in every window as long as a fault's onset while nothing was broken."""
    windows = [window for window in _quiet(data) if (void.stolen(data, [window]) or 0.0) <= void.STOLEN_MAX]
    gaps = [worst_gap_ms(data, [window]) for window in windows]
    return [gap for gap in gaps if gap is not None]


def _quiet(data: RunData) -> Iterator[Span]:
    """From a second after each undo to the next fault."""
    for before, after in pairwise(data.faults):
        if before.reverted_ns is None or after.onset_ns is None or not onsets(before):
            continue
        length = onsets(before)[0].end_ns - onsets(before)[0].start_ns
        start = before.reverted_ns + SETTLE_NS
        while start + length < after.onset_ns:
            yield Span(start, start + length)
            start += length


def measure(
    steps: Steps, *, arm: str, rate_gbit: float, hosts: int, faults: int, kinds: str
) -> tuple[list[Figure], Any]:
    figures: list[Figure] = []
    raw: dict[str, Any] = {}
    for kind in kinds.split(","):
        found, left = Found(), faults
        while left > 0:
            count = min(left, PER_STEP)
            left -= count
            found.add(steps.run(_experiment(kind, count, arm, rate_gbit, hosts), arm))
        raw[kind] = {"stalls": found.stalls, "not_stolen": found.not_stolen, "floor": found.floor}
        figures += _figures(kind, found)
    return figures, {"stalls_ms": raw}


def _experiment(kind: str, count: int, arm: str, rate_gbit: float, hosts: int) -> Any:
    timeline = spread_faults(kind, count, hosts=hosts, nics=NICS, every_s=EVERY_S, down_s=DOWN_S)
    workload = lab_workload(rate_gbit) | {"seconds": int(3 + count * EVERY_S + 3)}
    topology = {"hosts": hosts, "nics": NICS, "rate_gbit": rate_gbit}
    name = f"stalls-{kind}".replace("_", "-")
    return experiment(name, topology=topology, workload=workload, faults=timeline, arms=[arm])


def _figures(kind: str, found: Found) -> list[Figure]:
    bound = BOUNDS_MS.get(kind)
    return [
        Figure(f"{kind}: faults that count", len(found.stalls), LEAST, "", at_least=True),
        median_of(f"{kind}: stall, median", found.stalls, None, "ms"),
        Figure(
            f"{kind}: stall, p99", percentile(found.stalls, 99), bound, "ms", void=found.void, repeats=len(found.stalls)
        ),
        Figure(f"{kind}: stall, maximum", max(found.stalls, default=None), None, "ms"),
        Figure(f"{kind}: CPU not stolen: faults", len(found.not_stolen), None, ""),
        Figure(f"{kind}: CPU not stolen: stall, p99", percentile(found.not_stolen, 99), None, "ms"),
        Figure(f"{kind}: floor, p99", percentile(found.floor, 99), None, "ms", repeats=len(found.floor)),
    ]


main = command(
    "Stall distribution",
    measure,
    hosts_option,
    click.option("--faults", type=click.IntRange(1, 1000), default=24, show_default=True, help="Of each kind."),
    click.option("--kinds", default="link_down,black_hole", show_default=True),
)

if __name__ == "__main__":
    main()
