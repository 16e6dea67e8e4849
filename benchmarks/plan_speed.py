"""How long a core works on a plan for a large cluster, from the request as text to the plan as text, and its memory."""

from __future__ import annotations

import json
import resource
import time
from random import Random
from typing import Any

import click
from common import Benchmark, Figure, finish, json_option, median_of

from harness.build import build_net
from harness.progress import show
from harness.schedules import planner

BOUND_MS, NCCL_BOUND_MS, NCCL_BOUND_MIB = 50.0, 100.0, 100.0
NCCL_CHANNELS = 24
"""Of chains, at most, as in r2cc_patches/nccl/chain_channels.cc."""
RATE_GBIT = 400.0
KIND = '"kind"'


def request(*, nodes: int, nics: int, faults: int, channels: int, schedule: str, seed: int) -> str:
    """`faults` NICs, drawn by the seed, are gone."""
    gone = set(Random(seed).sample([(node, nic) for node in range(nodes) for nic in range(nics)], faults))

    def node(index: int) -> dict[str, Any]:
        each = [
            {"name": f"eth{nic}", "rate_gbit": RATE_GBIT, "capacity": 0.0 if (index, nic) in gone else 1.0}
            for nic in range(nics)
        ]
        return {"name": f"h{index}", "ranks": list(range(index * nics, (index + 1) * nics)), "nics": each}

    described = [node(index) for index in range(nodes)]
    return json.dumps({"schema": 1, "nodes": described, "bytes": 1 << 30, "channels": channels, "schedule": schedule})


def as_nccl_asks(text: str, *, nics: int, seed: int) -> str:
    """The same request with cycles of chain channels that have a home on each NIC, in orders drawn by the seed."""
    asked = json.loads(text)
    draw, ranks = Random(seed), [node["ranks"] for node in asked["nodes"]]
    count = max(1, min(NCCL_CHANNELS // nics, len(ranks) - 1))
    cycles = [[rank for node in draw.sample(ranks, len(ranks)) for rank in node] for _ in range(count)]
    return json.dumps(
        {**asked, "cycles": cycles, "homes": list(range(nics)), "channels": count + 1, "cost": {"even_rails": 0}}
    )


def memory_mib() -> float:
    """The most that this process had until now."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@click.command(cls=Benchmark)
@click.option("--nodes", type=click.IntRange(2), default=1024, show_default=True)
@click.option("--nics", type=click.IntRange(1, 64), default=8, show_default=True, help="And ranks, of a node.")
@click.option("--faults", type=click.IntRange(0), default=20, show_default=True, help="NICs that are gone.")
@click.option("--channels", type=click.IntRange(0, 1024), default=32, show_default=True)
@click.option("--schedule", default="chain", show_default=True, help="All are computed; this one is written out.")
@click.option("--nccl", is_flag=True, help="As NCCL asks: cycles of chain channels, with homes.")
@click.option("--times", type=click.IntRange(1), default=21, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@json_option
def main(
    *, nodes: int, nics: int, faults: int, channels: int, schedule: str, nccl: bool, times: int, seed: int,
    as_json: bool,
) -> None:  # fmt: skip
    """Plan again and again; exit code 1 if the median is over the bound."""
    build_net(progress=show)
    text = request(nodes=nodes, nics=nics, faults=faults, channels=channels, schedule=schedule, seed=seed)
    if nccl:
        text = as_nccl_asks(text, nics=nics, seed=seed)
    planner.plan_json(request(nodes=3, nics=1, faults=0, channels=0, schedule=schedule, seed=seed))  # loads the library
    before_mib = memory_mib()
    took: list[float] = []
    for _ in range(times):
        start = time.process_time()
        made = planner.plan_json(text)
        took.append((time.process_time() - start) * 1000)
    about = {"nodes": nodes, "nics": nics, "faults": faults, "channels": channels, "schedule": schedule}
    title = f"{nodes} nodes x {nics} NICs, {faults} gone, {channels} channels, {made.count(KIND)} parts"
    bound_ms, bound_mib = (NCCL_BOUND_MS, NCCL_BOUND_MIB) if nccl else (BOUND_MS, None)
    figures = [
        median_of("planning, CPU time, median", took, bound_ms, "ms"),
        Figure("most", max(took), None, "ms"),
        Figure("memory, text and plan with it", memory_mib() - before_mib, bound_mib, "MiB"),
    ]
    finish(title, figures, as_json=as_json, **about, parts=made.count(KIND))


if __name__ == "__main__":
    main()
