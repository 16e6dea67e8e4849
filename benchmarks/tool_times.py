"""How long the tools themselves take, where somebody waits for them; without traffic.

    .venv/bin/python benchmarks/tool_times.py [--times 9] [--json]

Medians of whole processes or calls. Tests hold what makes them fast (what is imported, read or compiled), which no busy
machine changes.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import click
from common import R2CC, Benchmark, Figure, finish, json_option

from chaos.simulate import params
from chaos.simulate.cluster import topology_files as topologies
from chaos.simulate.cluster.topology import Topology as Cluster
from chaos.simulate.faults import generators, timeline
from harness.build import build_net
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.progress import silent

ROOT = Path(__file__).resolve().parents[1]
FAULTS = """\
  - {{id: f{0}, kind: link_down, host: h{1}, nic: eth{2}, at: {{time_s: {0}}}, duration_s: 0.5}}
"""
HEAD = "name: many\ntopology: default\nworkload: {iterations: 10}\narms: {migrate: {expect: holds}}\nfaults:\n"


def took_ms(work: Callable[[], object], times: int) -> float:
    """Median of so many calls, after one that warms caches."""
    work()
    found = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        found.append((time.perf_counter() - started) * 1000)
    return median(found)


def r2cc(*words: str) -> Callable[[], object]:
    return lambda: subprocess.run([R2CC, *words], cwd=ROOT, check=True, capture_output=True)


def lab() -> None:
    with Lab.up(Topology.load("default")):
        pass


def cluster(name: str) -> Cluster:
    return topologies.load(ROOT / "experiments" / "sim" / "topologies" / name)


def figures(times: int, folder: Path) -> list[Figure]:
    shipped, small, large = params.load(), cluster("h100_1024.yaml"), cluster("h100_16384.yaml")
    trace = generators.generate(small, shipped, days=240, seed=1)
    many = folder / "many.yaml"
    many.write_text(HEAD + "".join(FAULTS.format(n, n % 4, n // 4 % 4) for n in range(2000)))
    of_thousand = took_ms(lambda: timeline.timeline(trace, small), times) * 1000 / len(trace.faults)
    return [
        Figure("r2cc --help", took_ms(r2cc("--help"), times), 300, "ms"),
        Figure("r2cc chaos validate, 2,000 faults", took_ms(r2cc("chaos", "validate", str(many)), times), 3000, "ms"),
        Figure("build with nothing to do", took_ms(lambda: build_net(progress=silent), times), 1000, "ms"),
        Figure("lab of 4 hosts x 4 NICs, up and down", took_ms(lab, times), 3000, "ms"),
        Figure("a month's faults, 1,024 GPUs", took_ms(_month(small), times), 10, "ms"),
        Figure("a month's faults, 16,384 GPUs", took_ms(_month(large), times), 300, "ms"),
        Figure("1,000 faults to a timeline", of_thousand, 30, "ms"),
    ]


def _month(of: Cluster) -> Callable[[], object]:
    return lambda: generators.generate(of, params.load(), days=30, seed=1)


@click.command(cls=Benchmark)
@click.option("--times", type=click.IntRange(1), default=9, show_default=True)
@json_option
def main(times: int, as_json: bool) -> None:
    """Exit codes: 0 every figure holds, 1 one misses."""
    with tempfile.TemporaryDirectory() as folder:
        found = figures(times, Path(folder))
    finish("the tools", found, as_json=as_json)


if __name__ == "__main__":
    main()
