"""How long the planner takes for a large cluster, from the request as text to the plan as text."""

from __future__ import annotations

import json
import time
from random import Random
from statistics import median
from typing import Any

import click
from common import Benchmark, Figure, finish, json_option

from harness.build import build_net
from harness.progress import show
from harness.schedules import planner

BOUND_MS = 50.0
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


@click.command(cls=Benchmark)
@click.option("--nodes", type=click.IntRange(2), default=1024, show_default=True)
@click.option("--nics", type=click.IntRange(1, 64), default=8, show_default=True, help="And ranks, of a node.")
@click.option("--faults", type=click.IntRange(0), default=20, show_default=True, help="NICs that are gone.")
@click.option("--channels", type=click.IntRange(0, 1024), default=32, show_default=True)
@click.option("--schedule", default="chain", show_default=True, help="All are computed; this one is written out.")
@click.option("--times", type=click.IntRange(1), default=21, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@json_option
def main(
    *, nodes: int, nics: int, faults: int, channels: int, schedule: str, times: int, seed: int, as_json: bool
) -> None:
    """Plan again and again; exit code 1 if the median is over the bound."""
    build_net(progress=show)
    text = request(nodes=nodes, nics=nics, faults=faults, channels=channels, schedule=schedule, seed=seed)
    took: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        made = planner.plan_json(text)
        took.append((time.perf_counter() - start) * 1000)
    about = {"nodes": nodes, "nics": nics, "faults": faults, "channels": channels, "schedule": schedule}
    title = f"{nodes} nodes x {nics} NICs, {faults} gone, {channels} channels, {made.count(KIND)} parts"
    figures = [Figure("planning, median", median(took), BOUND_MS, "ms"), Figure("most", max(took), None, "ms")]
    finish(title, figures, as_json=as_json, **about, parts=made.count(KIND))


if __name__ == "__main__":
    main()
