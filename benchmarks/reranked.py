"""Chains and rings in another order in the lab: hosts lost NICs, and the bench plans as NCCL does.

    .venv/bin/python benchmarks/reranked.py [--nics 4] [--down h1:eth0,h2:eth3] [--rate 0.2] [--mib 32] [--json]
    .venv/bin/python benchmarks/reranked.py --nics 3 --down h1:eth0 --rate 0.1 --mib 24
    .venv/bin/python benchmarks/reranked.py --nics 2 --down h1:eth0,h2:eth1 --one-subnet --rate 0.1 --mib 24

Four hosts with a rank each, by turns in one lab, every element checked:

\b
healthy   the ring on whole NICs: what the others are measured by
balance   the same ring with the NICs of --down taken for failed (R2CC_ASSUME_DOWN), on balanced paths
reranked  rings in another order alone (--schedule reranked)
auto      what the planner chooses: chains, with rings beside them

Two neighbours without a rail in common reach each other in one subnet alone (`--one-subnet`): where rails are apart
they cannot connect. The figure is the median over the rounds of the ratio of two times in the same round. `busiest NIC`
is what that carries of the message, over what each does in the healthy ring. A run is void when the machine was over
85 % busy. Seen: docs/results/schedules.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import click
from common import MIB, Benchmark, Figure, finish, json_option
from plan_runs import Run, run_plan
from schedules import BUSY, SLOTS

from chaos.analysis.stats import median
from harness.build import NetBuild, build_net
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.progress import silent
from harness.workloads.bench import BenchSpec, Schedule

HOSTS = 4
ARMS: dict[str, Schedule] = {"healthy": "ring", "balance": "ring", "reranked": "reranked", "auto": "auto"}
IN_MODE_3 = ("reranked", "auto")
AIMS = {
    (4, "h1:eth0,h2:eth3"): {"reranked": 1.36, "auto": 1.20},
    (3, "h1:eth0"): {"auto": 1.15},
    (2, "h1:eth0,h2:eth1"): {"auto": 1.36},
}
"""By NICs and what failed. `reranked` of four NICs has an AllGather's aim, which runs on nothing else."""


def once(lab: Lab, net: NetBuild, arm: str, spec: BenchSpec, down: Sequence[str]) -> Run:
    """Balance spreads a lost NIC over the others, and wants as many chunks in flight."""
    mode = 3 if arm in IN_MODE_3 else 2
    return run_plan(lab, net, spec, down=() if arm == "healthy" else down, mode=mode)


def busiest(run: Run, spec: BenchSpec, nics: int) -> float:
    """Of all NICs, either way, over what each carries of a message in a ring on whole NICs."""
    most = max(count for host in run.sent.values() for ways in host.values() for count in ways.values())
    return most / spec.bytes / (2 * (HOSTS - 1) / HOSTS / nics)


@click.command(cls=Benchmark, help=__doc__)
@click.option("--nics", type=click.IntRange(2, 8), default=4, show_default=True, help="Of each host.")
@click.option("--down", default="h1:eth0,h2:eth3", show_default=True, metavar="HOST:NIC,...", help="NICs that failed.")
@click.option("--one-subnet", is_flag=True, help="All NICs on one switch and in one subnet; else each rail by itself.")
@click.option("--rate", "rate_gbit", type=click.FloatRange(0.01, 32), default=0.2, show_default=True, help="Of a NIC.")
@click.option("--mib", type=click.IntRange(1, 1024), default=32, show_default=True, help="Bytes of a rank.")
@click.option("--iterations", type=click.IntRange(1, 1000), default=4, show_default=True)
@click.option("--rounds", type=click.IntRange(1, 100), default=3, show_default=True)
@json_option
def main(
    *, nics: int, down: str, one_subnet: bool, rate_gbit: float, mib: int, iterations: int, rounds: int, as_json: bool
) -> None:  # fmt: skip
    net = build_net(progress=silent)
    runs: dict[str, list[Run]] = {arm: [] for arm in ARMS}
    specs: dict[str, BenchSpec] = {}
    with Lab.up(Topology(hosts=HOSTS, nics=nics, rate_gbit=rate_gbit, one_subnet=one_subnet)) as lab:
        for _ in range(rounds):
            for arm, schedule in ARMS.items():
                slots = max(SLOTS, nics - 1) if arm == "balance" else SLOTS
                specs[arm] = BenchSpec(
                    bytes=mib * MIB, iterations=iterations, warmup=2, channels=nics, slots=slots, schedule=schedule
                )
                runs[arm].append(once(lab, net, arm, specs[arm], down.split(",")))
                click.echo(f"{arm}: {runs[arm][-1].median_ms:.1f} ms", err=True)
    figures, aims = [], AIMS.get((nics, down), {})
    for arm in list(ARMS)[1:]:
        pairs = list(zip(runs["healthy"], runs[arm], strict=True))
        ratio = median([other.median_ms / healthy.median_ms for healthy, other in pairs])
        void = any(run.busy > BUSY for pair in pairs for run in pair)
        figures.append(Figure(arm, ratio, aims.get(arm), "x the healthy ring", void=void, judged=arm in aims))
        carried = max(busiest(run, specs[arm], nics) for run in runs[arm])
        figures.append(Figure(f"{arm}: busiest NIC", carried, None, "x the healthy ring's", judged=False))
    wrong = sum(run.wrong_elements for found in runs.values() for run in found)
    figures.append(Figure("wrong elements", wrong, 0, ""))
    settings = {
        "nics": nics,
        "down": down,
        "one_subnet": one_subnet,
        "rate_gbit": rate_gbit,
        "bytes": mib * MIB,
        "build_id": net.build_id,
    }
    times = {arm: [run.times_ms for run in found] for arm, found in runs.items()}
    finish("Rings in another order", figures, as_json=as_json, settings=settings, times_ms=times)


if __name__ == "__main__":
    main()
