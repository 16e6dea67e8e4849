"""What is left of the bandwidth while NICs are gone or slow, from the first whole iteration after the switch.

    .venv/bin/python benchmarks/degraded_bandwidth.py [--arm balance] [--times 5] [--lock FILE] [--json]

The ratio is (healthy time / degraded time) / (what is left of the NICs): 1 means that nothing is lost but the NICs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import click
from common import Figure, Json, Ran, Steps, command, experiment, hosts_option, lab_workload, median_of

from chaos.analysis.figures import return_ms
from chaos.analysis.phases import degraded_indices, healthy_ms
from chaos.analysis.stats import median

NICS = 4
EVERY_S, DOWN_S = 9.0, 4.0
TOGETHER_NS = 100_000_000
BACK_MS = 1000.0


@dataclass(frozen=True)
class Case:
    """One kind of loss and the share of bandwidth that is left in it."""

    name: str
    kind: str
    nics: int
    left: float
    bound: float
    settings: tuple[tuple[str, Any], ...] = ()


CASES = (
    Case("one_of_four", "link_down", 1, 3 / 4, 0.97),
    Case("two_of_four", "link_down", 2, 2 / 4, 0.95),
    Case("half_rate", "rate", 1, 3.5 / 4, 0.95, (("fraction", 0.5),)),
)


def timeline(case: Case, times: int, hosts: int) -> list[Json]:
    """Each time another host and other NICs."""
    found = []
    for n in range(times):
        host = n % hosts
        nics = [f"h{host}:eth{(n + k) % NICS}" for k in range(case.nics)]
        at = {"time_s": 3.0 + n * EVERY_S}
        common = {"id": f"f{n}", "kind": case.kind, "nics": nics, "at": at, "duration_s": DOWN_S, "may_miss": True}
        found.append({**common, **dict(case.settings)})
    return found


def ratios(ran: Ran, left: float) -> tuple[list[float], list[float]]:
    """(of the first whole iteration, of the median one) of each fault."""
    healthy, durations = median(healthy_ms(ran.data)), ran.data.durations_ms
    first, middle = [], []
    for fault in ran.data.faults:
        indices = degraded_indices(ran.data, fault)
        times = [durations[index] for index in indices]
        if healthy and times:
            first.append(healthy / times[0] / left)
            middle.append(healthy / (median(times) or times[0]) / left)
    return first, middle


def after_switch(ran: Ran, left: float) -> tuple[list[float], list[float]]:
    """Of a slow NIC: the ms until the load had moved that had to, and the first whole iteration after that."""
    healthy, durations, whole = median(healthy_ms(ran.data)), ran.data.durations_ms, ran.data.whole
    took, first = [], []
    for fault in ran.data.faults:
        onset, revert = fault.onset_ns or 0, fault.reverted_ns or 0
        switches = sorted(
            line["t_ns"]
            for line in ran.data.by_event.get("path", [])
            if line.get("direction") == "send" and line["cause"] == "balance" and onset < line["t_ns"] < revert
        )
        # All connections of a NIC switch together; what comes later follows from another measurement.
        last = next((at for at, then in pairwise([*switches, revert + TOGETHER_NS]) if then - at > TOGETHER_NS), None)
        later = [index for index in degraded_indices(ran.data, fault) if last and whole[index].start_ns > last]
        if healthy and last and later:
            took.append((last - onset) / 1e6)
            first.append(healthy / durations[later[0]] / left)
    return took, first


def measure(
    steps: Steps, *, arm: str, rate_gbit: float, hosts: int, times: int, cases: str
) -> tuple[list[Figure], Any]:
    figures: list[Figure] = []
    raw: Json = {}
    for case in CASES:
        if case.name not in cases.split(","):
            continue
        workload = lab_workload(rate_gbit) | {"seconds": int(3 + times * EVERY_S)}
        topology = {"hosts": hosts, "nics": NICS, "rate_gbit": rate_gbit}
        name = f"degraded-{case.name}".replace("_", "-")
        timeline_ = timeline(case, times, hosts)
        ran = steps.run(experiment(name, topology=topology, workload=workload, faults=timeline_, arms=[arm]), arm)
        first, middle = ratios(ran, case.left)
        raw[case.name] = {"first": first, "median": middle, "healthy_ms": ran.figures["healthy_ms"]}
        words = {"at_least": True, "void": ran.void}
        figures += [
            median_of(f"{case.name}: first whole iteration", first, case.bound, "of what is left", **words),
            median_of(f"{case.name}: median iteration", middle, case.bound, "of what is left", **words),
        ]
        if case.kind == "rate":  # nobody tells of it: it has to be measured first
            took, switched = after_switch(ran, case.left)
            back = [ms for fault in ran.data.faults if (ms := return_ms(ran.data, fault)) is not None]
            never = len(ran.data.faults) - len(back)
            raw[case.name] |= {"switch_ms": took, "first_after_switch": switched, "return_ms": back}
            name = f"{case.name}: first whole iteration after the switch"
            figures += [
                median_of(name, switched, case.bound, "of what is left", **words),
                median_of(f"{case.name}: until the switch, median", took, None, "ms", void=ran.void),
                median_of(f"{case.name}: from the undo to 98 % of healthy", back, BACK_MS, "ms", void=ran.void),
                Figure(f"{case.name}: never back", never, 0, "", void=ran.void),
            ]
    return figures, {"ratios": raw}


main = command(
    "Bandwidth while degraded",
    measure,
    hosts_option,
    click.option("--times", type=click.IntRange(1, 11), default=5, show_default=True, help="Faults of each case."),
    click.option("--cases", default=",".join(case.name for case in CASES), show_default=True),
)

if __name__ == "__main__":
    main()
