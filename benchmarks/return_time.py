"""How soon after link-up a run is back at 98 % of its healthy rate.

    .venv/bin/python benchmarks/return_time.py [--faults 20] [--arm migrate] [--lock FILE] [--json]

Measured from the command that brought the link up to the start of the first whole iteration at that rate. All returns
are judged; those during which no hypervisor gave more than a tenth of the CPU to others are shown apart.
"""

from __future__ import annotations

from typing import Any

import click
from common import Figure, Json, Ran, Steps, command, experiment, hosts_option, lab_workload, median_of, spread_faults

from chaos.analysis import void
from chaos.analysis.phases import SETTLE_NS
from chaos.analysis.rundata import Span
from chaos.analysis.stats import percentile
from chaos.soak.judge import fates

NICS = 4
EVERY_S, DOWN_S = 4.5, 1.5
BOUND_MS = 1000.0


def measure(steps: Steps, *, arm: str, rate_gbit: float, hosts: int, faults: int) -> tuple[list[Figure], Any]:
    timeline = spread_faults("link_down", faults, hosts=hosts, nics=NICS, every_s=EVERY_S, down_s=DOWN_S)
    workload = lab_workload(rate_gbit) | {"seconds": int(3 + faults * EVERY_S + 2)}
    topology = {"hosts": hosts, "nics": NICS, "rate_gbit": rate_gbit}
    ran = steps.run(experiment("returns", topology=topology, workload=workload, faults=timeline, arms=[arm]), arm)
    moving = {fate.id for fate in fates(ran.data.lines) if fate.moved}
    faults_ = [f for f in ran.figures["faults"] if f["id"] in moving]
    found = [f["return_ms"] for f in faults_]
    known = [value for value in found if value is not None]
    ours = [f["return_ms"] for f in faults_ if f["return_ms"] is not None and not was_stolen(ran, f)]
    figures = [
        Figure("faults that count", len(known), faults * 0.8, "", at_least=True),
        Figure("never back", len(found) - len(known), 0, ""),
        median_of("return, median", known, None, "ms"),
        Figure("return, p99", percentile(known, 99), BOUND_MS, "ms", void=ran.void, repeats=len(known)),
        Figure("return, maximum", max(known, default=None), None, "ms"),
        Figure("CPU not stolen: faults", len(ours), None, ""),
        Figure("CPU not stolen: return, p99", percentile(ours, 99), None, "ms"),
    ]
    return figures, {"return_ms": found, "return_ms_not_stolen": ours}


def was_stolen(ran: Ran, fault: Json) -> bool:
    """In the time that the return may take."""
    if fault["reverted_ns"] is None:
        return False
    window = Span(fault["reverted_ns"], fault["reverted_ns"] + SETTLE_NS)
    return (void.stolen(ran.data, [window]) or 0.0) > void.STOLEN_MAX


main = command(
    "Return after link-up",
    measure,
    hosts_option,
    click.option("--faults", type=click.IntRange(1, 22), default=20, show_default=True),
)

if __name__ == "__main__":
    main()
