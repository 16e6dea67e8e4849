"""A short measurement of our own: all-reduces of the host bench in the lab, on two numbers of hosts."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

from harness.build import NetBuild, build_net
from harness.errors import InfraError
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.progress import silent
from harness.schedules.costs.fit import Nodes
from harness.schedules.costs.measured import Measured
from harness.workloads.bench import BenchSpec, bench_command, bench_env

HOSTS = (3, 5)
TINY_BYTES, LARGE_S = 4096, 0.4
"""A size whose bytes take no time, and how long one all-reduce of the largest should take."""
MOST_BYTES, LEAST_BYTES = 64 << 20, 1 << 20
SMALLER = 4
ITERATIONS = 7
ROOT = "10.250.0.1:29611"
END_S = 60
WAY = "ring"


def all_reduces(nodes: Nodes) -> list[Measured]:
    """Rings over sockets of hosts with these NICs. Needs what the lab needs (r2cc doctor); BuildError, InfraError."""
    net = build_net(progress=silent)
    bytes_per_s = nodes.nics * nodes.rate_gbit * 1e9 / 8
    large = max(LEAST_BYTES, min(MOST_BYTES, int(LARGE_S * bytes_per_s / 2) & -4096))
    found = []
    for hosts in HOSTS:
        with Lab.up(Topology(hosts=hosts, nics=nodes.nics, rate_gbit=nodes.rate_gbit)) as lab:
            for size in (TINY_BYTES, large // SMALLER, large):
                found.append(Measured(hosts, 1, size, _median_us(lab, net, size), WAY))
    return found


def _median_us(lab: Lab, net: NetBuild, size: int) -> float:
    """From the first rank's start to the last one's end, of the iterations in the middle."""
    spec = BenchSpec(bytes=size, iterations=ITERATIONS)
    env = bench_env(2, topology_file=lab.places_file)
    ranks = [
        host.spawn(
            bench_command(net.bench, spec, rank=rank, ranks=len(lab.hosts), root=ROOT, library=net.library), env=env
        )
        for rank, host in enumerate(lab.hosts.values())
    ]
    try:
        with ThreadPoolExecutor(len(ranks)) as pool:  # a full pipe would hold a rank up
            lines = list(pool.map(lambda rank: [json.loads(line) for line in rank.stdout or ()], ranks))
        codes = [rank.wait(END_S) for rank in ranks]
        if any(codes):
            tails = "; ".join(filter(None, (rank.stderr_tail(3) for rank in ranks)))
            raise InfraError(
                f"all-reduces in the lab ended with {codes}: {tails}", "r2cc doctor says what the lab lacks"
            )
    finally:
        for rank in ranks:
            rank.close()
    return median(_times_us(lines))


def _times_us(lines: list[list[dict[str, Any]]]) -> list[float]:
    spans: dict[int, list[tuple[int, int]]] = {}
    for line in (line for rank in lines for line in rank):
        if line["event"] == "iteration" and line["index"] >= 0:
            spans.setdefault(line["index"], []).append((line["start_ns"], line["end_ns"]))
    return [(max(end for _, end in each) - min(start for start, _ in each)) / 1e3 for each in spans.values()]
