"""What it costs a job when a NIC is drained, then loses its link, gets it back and is used again; beside a cable that
is pulled without a word.

    .venv/bin/python benchmarks/drain.py [--repeats 5] [--modes 1,2] [--json]

An iteration is late when it takes over 10 ms longer than the median of the ten before it and of the ten after it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click
from common import Benchmark, Figure, Json, finish, json_option, lock_option, locked
from plan_runs import play, windows, wrong

from harness.build import NetBuild, build_net
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.progress import silent
from harness.watch import drains
from harness.workloads.bench import BenchSpec, bench_env

PLACE, PORT = drains.Place("h1", "eth1"), "h1-eth1"
LATE_MS = 10.0
AROUND = 10
SPEC = BenchSpec(bytes=1 << 20, iterations=400, warmup=2, channels=3, timeout_s=60)
STEPS = {80: "drain", 180: "pull", 240: "plug", 300: "undrain"}
"""By iteration. A drain is heard of within a second, and an iteration takes over 20 ms."""
BUSY = 0.85
LEFT_S = 20.0


@dataclass(frozen=True)
class Drained:
    arm: str
    mode: int
    late: dict[int, float]
    """by iteration: milliseconds more than its neighbours"""
    moved: int
    """connections that froze"""
    wrong_elements: int
    busy: float


def run_drain(lab: Lab, net: NetBuild, mode: int, *, steps: Mapping[int, str], spec: BenchSpec = SPEC) -> Drained:
    """Every host is a rank. Raises R2ccError unless every rank completes."""
    folder = Path(tempfile.mkdtemp(prefix="r2cc-drain-"))

    def heard(rank: int, line: Json) -> None:
        step = steps.get(line["index"]) if rank == 0 and line["event"] == "progress" else None
        if step in ("pull", "plug"):
            if step == "pull" and "drain" in steps.values():
                drains.wait_until_left(folder / "status", PLACE, LEFT_S)
            lab.switch.run(["ip", "link", "set", PORT, "down" if step == "pull" else "up"])
        elif step is not None:
            drains.drain(folder, PLACE) if step == "drain" else drains.undrain(folder, PLACE)

    extra = {"R2CC_CONTROL_DIR": str(folder), "R2CC_STATUS_DIR": str(folder / "status")}
    try:
        lines, cpu = play(lab, net, spec, bench_env(mode, topology_file=lab.places_file, extra=extra), heard)
    finally:
        lab.switch.run(["ip", "link", "set", PORT, "up"])
        shutil.rmtree(folder)
    spans = windows(lines)
    times = [(end - begin) / 1e6 for index, (begin, end) in sorted(spans.items()) if index >= 0]
    froze = {
        (rank, line["connection"])
        for rank, each in enumerate(lines)
        for line in each
        if line["event"] == "path" and line["state"] == "frozen" and line["direction"] == "send"
    }
    arm = "drained" if "drain" in steps.values() else "pulled"
    return Drained(arm, mode, late(times), len(froze), wrong(lines), cpu.busy([*spans.values()]))


def late(times_ms: Sequence[float]) -> dict[int, float]:
    """Pure: which iterations are late, and by how much."""
    found = {}
    for index, ms in enumerate(times_ms):
        before, after = times_ms[max(0, index - AROUND) : index], times_ms[index + 1 : index + 1 + AROUND]
        usual = max(median(part) for part in (before, after) if part)
        if ms > usual + LATE_MS:
            found[index] = round(ms - usual, 1)
    return found


@click.command(cls=Benchmark, help="What draining a NIC costs, beside pulling its cable")
@click.option("--repeats", type=click.IntRange(1, 100), default=5, show_default=True)
@click.option("--modes", default="1,2", show_default=True)
@click.option("--rate", "rate_gbit", type=click.FloatRange(0.01, 32), default=0.2, show_default=True, help="Of a NIC.")
@lock_option
@json_option
def main(*, repeats: int, modes: str, rate_gbit: float, lock: Path | None, as_json: bool) -> None:
    net = build_net(progress=silent)
    runs: list[Drained] = []
    pulled = {at: step for at, step in STEPS.items() if step in ("pull", "plug")}
    with Lab.up(Topology(hosts=3, nics=3, rate_gbit=rate_gbit)) as lab:
        for _ in range(repeats):
            for mode in map(int, modes.split(",")):
                for steps in (STEPS, pulled):
                    with locked(lock):
                        runs.append(run_drain(lab, net, mode, steps=steps))
                    last = runs[-1]
                    said = f"late {last.late}, {last.moved} froze, {100 * last.busy:.0f} % busy"
                    click.echo(f"mode {last.mode} {last.arm}: {said}", err=True)
    figures = [Figure("wrong elements", sum(run.wrong_elements for run in runs), 0, "")]
    for arm in ("drained", "pulled"):
        mine = [run for run in runs if run.arm == arm]
        void = any(run.busy > BUSY for run in mine)
        ours: Any = 0 if arm == "drained" else None
        figures.append(Figure(f"{arm}: connections that froze", sum(run.moved for run in mine), ours, ""))
        figures.append(Figure(f"{arm}: late iterations", sum(len(run.late) for run in mine), ours, "", void=void))
    finish("Drain", figures, as_json=as_json, build_id=net.build_id, runs=[asdict(run) for run in runs])


if __name__ == "__main__":
    main()
