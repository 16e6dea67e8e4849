"""How long delivery stands still: median, p99 and maximum over many faults, of two kinds, in one long run each.

    .venv/bin/python benchmarks/stall_distribution.py [--faults 24] [--arm migrate] [--lock FILE] [--json]

A fault counts when a collective was in flight and a connection moved off the NIC; there must be at least 20 of each.
"""

from __future__ import annotations

from typing import Any

import click
from common import MIB, Figure, Ran, Steps, command, experiment, spread_faults

from chaos.soak.judge import fates
from chaos.stats import median, percentile

BOUNDS_MS = {"link_down": 10.0, "black_hole": 50.0}
LEAST = 20
PER_STEP = 26
EVERY_S, DOWN_S = 3.5, 1.5
HOSTS, NICS = 4, 4


def stalls(ran: Ran) -> list[float]:
    """stall_ms of every fault that hit and moved something."""
    moving = {fate.id for fate in fates(ran.data.lines) if fate.moved}
    return [
        fault["stall_ms"]
        for fault in ran.figures["faults"]
        if fault["hit"] and fault["id"] in moving and fault["stall_ms"] is not None
    ]


def measure(steps: Steps, *, arm: str, rate_gbit: float, faults: int, kinds: str) -> tuple[list[Figure], Any]:
    figures: list[Figure] = []
    raw: dict[str, list[float]] = {}
    for kind in kinds.split(","):
        found: list[float] = []
        void, left = False, faults
        while left > 0:
            count = min(left, PER_STEP)
            left -= count
            ran = steps.run(_experiment(kind, count, arm, rate_gbit), arm)
            found += stalls(ran)
            void |= ran.void
        raw[kind] = found
        figures += _figures(kind, found, void)
    return figures, {"stalls_ms": raw}


def _experiment(kind: str, count: int, arm: str, rate_gbit: float) -> Any:
    timeline = spread_faults(kind, count, hosts=HOSTS, nics=NICS, every_s=EVERY_S, down_s=DOWN_S)
    seconds = int(3 + count * EVERY_S + 3)
    size = max(4, int(64 * MIB * rate_gbit) // 4 * 4)
    workload = {"bytes": size, "iterations": 1_000_000, "seconds": seconds}
    topology = {"hosts": HOSTS, "nics": NICS, "rate_gbit": rate_gbit}
    return experiment(
        f"stalls-{kind}".replace("_", "-"), topology=topology, workload=workload, faults=timeline, arms=[arm]
    )


def _figures(kind: str, found: list[float], void: bool) -> list[Figure]:
    bound = BOUNDS_MS.get(kind)
    return [
        Figure(f"{kind}: faults that count", len(found), LEAST, "", at_least=True),
        Figure(f"{kind}: stall, median", median(found), None, "ms"),
        Figure(f"{kind}: stall, p99", percentile(found, 99), bound, "ms", void=void),
        Figure(f"{kind}: stall, maximum", max(found, default=None), None, "ms"),
    ]


main = command(
    "Stall distribution",
    measure,
    click.option("--faults", type=click.IntRange(1, 1000), default=24, show_default=True, help="Of each kind."),
    click.option("--kinds", default="link_down,black_hole", show_default=True),
)

if __name__ == "__main__":
    main()
