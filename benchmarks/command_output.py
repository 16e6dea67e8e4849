"""What it costs to run any program under `kind: command`: reading what it prints, and the run around it.

    .venv/bin/python benchmarks/command_output.py [--gigabytes 1] [--turns 2] [--json]

Output is read by the way that `r2cc chaos run` reads it. The run's CPU time is what all processes use more than the
bare commands do, for each second that the program runs longer: making the lab does not count. Two ranks print ten
steps a second each, and then thirty.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

import click
from common import Benchmark, Figure, Json, experiment, finish, json_option

from chaos.experiment.model import Experiment
from chaos.record.journal import Journal, read
from chaos.record.live import Display
from chaos.run import runner
from chaos.run.lines import Lines
from chaos.run.plan import Foreign, Plan
from chaos.testbed.beds import open_bed
from chaos.testbed.hostbench import built
from chaos.testbed.launch import Bench, Launch
from harness.errors import InfraError
from harness.files.rundir import RunDir
from harness.hosts import LocalHost
from harness.launch.processes import Processes, Start
from harness.launch.streams import Whole
from harness.sites.lab import LabSite
from harness.workloads.kinds.command import Command

GIGABYTE = 10**9
PRINTS = """
import os, sys
block = b"\\n".join(b"%0100d" % number for number in range(640)) + b"\\n"
for number in range(int(sys.argv[1]) // len(block)):
    os.write(1, block)
    if number % 100 == 0:
        os.write(1, b"step %d loss 0.5\\n" % number)
"""
STEPS = """
import sys, time
for number in range(int(sys.argv[1])):
    time.sleep(1 / float(sys.argv[2]))
    print(f"step {number} loss 0.5", flush=True)
"""
STEP = r"step (?P<step>\d+) loss (?P<loss>[0-9.]+)"
SHORT_S, LONG_S = 2, 14
STEPS_PER_S = (10, 30)
RANKS = 2
READ_S, MOST_MIB, CPU_PERCENT = 10.0, 200.0, 1.0


def command(argv: Sequence[str]) -> Json:
    return {"kind": "command", "argv": list(argv), "progress": {"step": STEP}, "warmup": 1}


def used_s() -> float:
    """CPU time of this process and of all its children that have ended."""
    every = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in every)


def resident_mib() -> float:
    """The most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def read_much(gigabytes: float, folder: Path) -> list[Figure]:
    """Reads it as a run does; the figures."""
    argv = [sys.executable, "-c", PRINTS, str(round(gigabytes * GIGABYTE))]
    workload = Command.model_validate(command(argv))
    ranks = [Launch("h0", "rank0", argv)]
    plan = Plan("stock", 0, ranks, [], [], reader=partial(workload.reader, ranks=1), foreign=Foreign("-", 60.0))
    before_mib, began_s, cpu_s, steps = resident_mib(), time.monotonic(), time.process_time(), 0
    with Journal(folder / "journal.jsonl") as journal, Processes() as processes:
        lines = Lines(plan, journal, lambda _rank, _pid, _host: None, time.monotonic_ns())
        processes.start([Start("rank0", LocalHost(), argv, dict(os.environ), Whole(0), 0)])
        while not all(each.eof for each in processes.running):
            for spoken in processes.heard(0.1):
                steps += sum(line["event"] == "iteration" for line in lines.heard(spoken))
        lines.keep(folder)
    took_s, cpu_s, kept = time.monotonic() - began_s, time.process_time() - cpu_s, folder / "stock-0-rank0.out"
    assert steps > 100 * gigabytes, steps
    return [
        Figure("reading 1 GB", took_s / gigabytes, READ_S, "s"),
        Figure("CPU time of that", cpu_s / gigabytes, None, "s"),
        Figure("memory for it", resident_mib() - before_mib, MOST_MIB, "MiB"),
        Figure("kept of it", kept.stat().st_size / 2**20, None, "MiB"),
    ]


def steps_of(steps: int, per_s: int) -> list[str]:
    return [sys.executable, "-c", STEPS, str(steps), str(per_s)]


def bare(per_s: int, steps: int) -> None:
    """The commands alone, their output thrown away."""
    argv = steps_of(steps, per_s)
    ranks = [subprocess.Popen(argv, stdout=subprocess.DEVNULL) for _ in range(RANKS)]
    for rank in ranks:
        rank.wait()


def whole(bench: Bench, folder: Path, per_s: int, steps: int) -> None:
    """The same as a run in the lab."""
    asked = own(steps, per_s)
    with Journal(folder / f"{steps}.jsonl") as journal, open_bed(LabSite(), asked) as bed:
        (plan,) = runner.plans(asked, ["stock"], bed, bench)
        runner.run_one(plan, bed, journal, out=RunDir(folder), display=Display())
    seen = sum(line["event"] == "iteration" for line in read(folder / f"{steps}.jsonl"))
    if seen != steps * RANKS:
        raise InfraError(f"the run had {seen} of {steps * RANKS} steps", "run it again on a quieter machine")


def own(steps: int, per_s: int) -> Experiment:
    topology, workload = {"hosts": RANKS, "nics": 2}, command(steps_of(steps, per_s))
    return experiment("own", topology=topology, workload=workload, arms=["stock"])


def percent_of(run: partial[None], per_s: int) -> float:
    """Of a core, while the program runs: what a longer run uses more, over the time that it takes more."""
    spent = []
    for lasting_s in (SHORT_S, LONG_S):
        began_s, cpu_s = time.monotonic(), used_s()
        run(per_s, per_s * lasting_s)
        spent.append((time.monotonic() - began_s, used_s() - cpu_s))
    (short_s, short_cpu_s), (long_s, long_cpu_s) = spent
    return 100 * (long_cpu_s - short_cpu_s) / (long_s - short_s)


@click.command(cls=Benchmark, help=__doc__)
@click.option("--gigabytes", type=click.FloatRange(0.01, 100), default=1.0, show_default=True, help="To read.")
@click.option("--turns", type=click.IntRange(1, 20), default=2, show_default=True, help="Runs with and without.")
@json_option
def main(gigabytes: float, turns: int, as_json: bool) -> None:
    """Measure, print, judge."""
    with tempfile.TemporaryDirectory(prefix="r2cc-own-") as name:
        figures = read_much(gigabytes, Path(name))
        bench, _ = built(quiet=True)
        run = partial(whole, bench, Path(name))
        pairs = {
            rate: [(percent_of(partial(bare), rate), percent_of(run, rate)) for _ in range(turns)]
            for rate in STEPS_PER_S
        }
    for rate, turned in pairs.items():
        more = median(ours - theirs for theirs, ours in turned) / RANKS
        figures += [
            Figure(
                f"CPU of a core, bare, {rate} steps/s", median(each[0] for each in turned) / RANKS, None, "% a rank"
            ),
            Figure(f"a run over that, {rate} steps/s", more, CPU_PERCENT, "% a rank"),
        ]
    finish("a program's own output", figures, as_json=as_json, pairs=pairs)


if __name__ == "__main__":
    main()
