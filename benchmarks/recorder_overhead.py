"""What the flight recorder costs: a record alone, and healthy iterations with and without it, interleaved.

    .venv/bin/python benchmarks/recorder_overhead.py [--pairs 5]

Exit code: 0 both figures hold (20 ns a record, 1 % of an iteration), 1 one misses, 3 the runs were void.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import click
import yaml
from common import Benchmark

from chaos.experiment.file import load
from chaos.run.runner import Request, run
from harness.build import build_net, run_target
from harness.files.rundir import create
from harness.progress import silent
from harness.repo import checkout

RECORD_NS = 20.0
RATIO = 1.01
EXPERIMENT: dict[str, Any] = {
    "name": "recorder_overhead",
    "topology": {"hosts": 2, "nics": 2, "rate_gbit": 1.0},
    "workload": {"bytes": 16 << 20, "iterations": 30, "channels": 2, "warmup": 3, "timeout_s": 60},
    "faults": [],
    "arms": {"migrate": {"expect": "any"}},
}


def healthy_ms(folder: Path, name: str, *, trace: bool) -> tuple[float, bool]:
    """The median healthy iteration of one run, and whether the run was void."""
    from chaos.record.live import display
    from chaos.testbed.beds import open_bed
    from chaos.testbed.hostbench import built
    from harness.sites.lab import LabSite

    file = folder / "experiment.yaml"
    file.write_text(yaml.safe_dump(EXPERIMENT))
    experiment = load(file)
    bench, build = built(quiet=True)
    request = Request(["migrate"], bench, build, lambda: open_bed(LabSite(), experiment), void_ok=True, trace=trace)
    summary = run(experiment, request, create(folder, name), display(sys.stderr, quiet=True, plain=True))
    healthy = summary.arms[0].runs[0].healthy_ms.median
    return healthy or 0.0, summary.verdict in ("void", "failed")


@click.command(cls=Benchmark)
@click.option("--pairs", type=click.IntRange(1, 50), default=5, show_default=True, help="Runs with and without.")
def main(pairs: int) -> None:
    """Measure, print, judge."""
    build_net(progress=silent)
    run_target("recorder-cost", silent)
    program = str(checkout().net / "recorder_cost")
    cost = json.loads(subprocess.run([program], check=True, capture_output=True).stdout)
    click.echo(f"a record: {cost['record_ns']:.1f} ns (limit {RECORD_NS:.0f}); off: {cost['off_ns']:.1f} ns; "
               f"clock_gettime {cost['clock_gettime_ns']:.1f} ns, ticks {cost['ticks_ns']:.1f} ns")  # fmt: skip
    measured: dict[bool, list[float]] = {False: [], True: []}
    void = False
    with tempfile.TemporaryDirectory(prefix="r2cc-overhead-") as folder:
        for pair in range(pairs):
            for trace in (False, True):
                ms, was_void = healthy_ms(Path(folder), f"pair{pair}-{'on' if trace else 'off'}", trace=trace)
                measured[trace].append(ms)
                void |= was_void
    ratios = [on / off for off, on in zip(measured[False], measured[True], strict=True)]
    click.echo(f"healthy iteration, median of {pairs}: off {median(measured[False]):.2f} ms, on "
               f"{median(measured[True]):.2f} ms; ratio {median(ratios):.4f} (limit {RATIO})")  # fmt: skip
    if void:
        click.echo("void: the machine was too busy")
    sys.exit(3 if void else int(cost["record_ns"] > RECORD_NS or median(ratios) > RATIO))


if __name__ == "__main__":
    main()
