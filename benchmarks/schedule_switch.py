"""What a switch of schedules costs the host bench: a cable of h1 is pulled under a run and plugged in again (issue 5).

    .venv/bin/python benchmarks/schedule_switch.py [--connect ahead,switch] [--repeats 3] [--mib 8] [--json]

The first iteration on another schedule, and what comes before it (the connections that are made for it), is compared
with the median of those that follow on the same schedule: what is over that is the switch's one-off cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, get_args

import click
from common import MIB, Benchmark, Figure, Json, finish, json_option, lock_option, locked, median_of
from plan_runs import play, windows, wrong

from harness.build import NetBuild, build_net
from harness.errors import R2ccError
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.progress import silent
from harness.workloads.bench import BenchSpec, Connect, bench_env

HOST, NIC, PORT = "h1", "eth0", "h1-eth0"
BOUND_MS = 50.0
BACK = 1.1
"""A NIC that is back must not slow the schedule that still counts on it being gone (docs/internals/schedules.md)."""
BUSY = 0.85
"""Of a machine: above it a run's times say nothing."""
SETTLED = 3
"""Iterations on a schedule without which its median would be of too few."""


@dataclass(frozen=True)
class Switch:
    """From iteration `index` on. `connect_ms`: the longest that a rank took to make its `connections`."""

    index: int
    epoch: int
    schedule: str
    capacities: str
    connections: int
    chose_ms: float
    connect_ms: float


@dataclass(frozen=True)
class Switched:
    """One run. Times are from the first rank's start to the last one's end, of each iteration."""

    switches: list[Switch]
    times_ms: dict[int, float]
    wrong_elements: int
    pulled: int
    plugged: int | None
    busy: float

    def after(self, switch: Switch) -> list[float]:
        ends = [other.index for other in self.switches if other.index > switch.index]
        end = min(ends, default=max(self.times_ms) + 1)
        return [self.times_ms[index] for index in range(switch.index, end) if index in self.times_ms]

    def cost_ms(self, switch: Switch) -> float | None:
        """Of the first iteration beside its followers, and of what came before it. None: too few followed."""
        first, *rest = self.after(switch)
        if len(rest) < SETTLED:
            return None
        return first - median(rest) + switch.chose_ms + switch.connect_ms

    def returning(self) -> float | None:
        """The longest iteration on chains with the cable plugged in again, over those with it out. None: too few."""
        chains = next((switch for switch in self.switches if switch.schedule == "chain"), None)
        if chains is None or self.plugged is None:
            return None
        times = self.after(chains)
        out, back = times[1 : self.plugged - chains.index], times[self.plugged - chains.index :]
        return max(back) / median(out) if back and len(out) >= SETTLED else None


def run_switch(
    lab: Lab, net: NetBuild, spec: BenchSpec, *, pull: int, plug: int | None, extra: Mapping[str, str] | None = None
) -> Switched:
    """Every host is a rank. The cable is pulled when iteration `pull` begins, and plugged in at `plug`.

    Raises R2ccError unless every rank completes and tells the same switches.
    """

    def heard(rank: int, line: Json) -> None:
        if rank == 0 and line["event"] == "progress" and line["index"] in (pull, plug):
            lab.switch.run(["ip", "link", "set", PORT, "down" if line["index"] == pull else "up"])

    try:
        lines, cpu = play(lab, net, spec, bench_env(3, topology_file=lab.places_file, extra=extra), heard)
    finally:
        lab.switch.run(["ip", "link", "set", PORT, "up"])
    return judged(lines, pull, cpu, plug)


def judged(lines: Sequence[Sequence[Json]], pull: int, cpu: Any, plug: int | None = None) -> Switched:
    """What the ranks' lines say. Raises R2ccError if they do not say the same."""
    told = [[line for line in rank if line["event"] == "schedule"] for rank in lines]
    same = [[(line["index"], line["epoch"], line["schedule"], line["capacities"]) for line in rank] for rank in told]
    if any(each != same[0] for each in same):
        raise R2ccError(f"the ranks switched at different iterations: {same}")
    switches = [
        Switch(
            *key,
            each[0]["connections"],
            max(line["chose_us"] for line in each) / 1e3,
            max(line["connect_us"] for line in each) / 1e3,
        )
        for key, each in zip(same[0], zip(*told, strict=True), strict=True)
    ]
    spans = windows(lines)
    times = {index: (end - begin) / 1e6 for index, (begin, end) in spans.items()}
    return Switched(switches, times, wrong(lines), pull, plug, cpu.busy([*spans.values()]))


def told_of(connect: str, run: Switched) -> list[str]:
    rows = []
    for switch in run.switches[1:]:
        cost = run.cost_ms(switch)
        first, *rest = run.after(switch)
        followers = f"{median(rest):.1f}" if rest else "-"
        said = "-" if cost is None else f"{cost:.1f} ms"
        rows.append(
            f"{connect}: {switch.schedule} from iteration {switch.index} (pulled at {run.pulled}), "
            f"{switch.connections} ends connected in {switch.connect_ms:.1f} ms, first iteration {first:.1f} ms, "
            f"the next {followers} ms, one-off {said}, machine {100 * run.busy:.0f} % busy"
        )
    return rows


@click.command(cls=Benchmark, help="What a switch of schedules costs the host bench")
@click.option("--connect", "connects", default="ahead,switch", show_default=True)
@click.option("--repeats", type=click.IntRange(1, 100), default=3, show_default=True)
@click.option("--hosts", type=click.IntRange(3, 16), default=4, show_default=True)
@click.option("--nics", type=click.IntRange(1, 8), default=2, show_default=True)
@click.option("--rate", "rate_gbit", type=click.FloatRange(0.01, 32), default=0.2, show_default=True, help="Of a NIC.")
@click.option("--mib", type=click.IntRange(1, 1024), default=8, show_default=True, help="Bytes of a rank.")
@click.option("--iterations", type=click.IntRange(20, 1000), default=40, show_default=True)
@lock_option
@json_option
def main(
    *,
    connects: str,
    repeats: int,
    hosts: int,
    nics: int,
    rate_gbit: float,
    mib: int,
    iterations: int,
    lock: Path | None,
    as_json: bool,
) -> None:
    wanted = connects.split(",")
    if set(wanted) - set(get_args(Connect)):
        raise click.UsageError("--connect takes ahead, switch or both")
    net = build_net(progress=silent)
    spec = BenchSpec(bytes=mib * MIB, iterations=iterations, warmup=2, channels=nics, slots=3, schedule="auto")
    found: list[tuple[str, Switched]] = []
    with Lab.up(Topology(hosts=hosts, nics=nics, rate_gbit=rate_gbit)) as lab:
        for _ in range(repeats):
            for connect in wanted:
                with locked(lock):
                    kind: Any = connect
                    each = replace(spec, connect=kind)
                    found.append((connect, run_switch(lab, net, each, pull=8, plug=iterations // 2 + 4)))
                for row in told_of(*found[-1]):
                    click.echo(row, err=True)
    figures = [Figure("wrong elements", sum(run.wrong_elements for _, run in found), 0, "")]
    for connect in wanted:
        runs = [run for name, run in found if name == connect]
        costs = [cost for run in runs for s in run.switches if s.schedule == "chain" and (cost := run.cost_ms(s))]
        worst = max(costs, default=None)
        void = any(run.busy > BUSY for run in runs)
        name = f"{connect}: one-off cost of a switch to chains"
        figures.append(median_of(f"{name}, median", costs, BOUND_MS, "ms", void=void))
        figures.append(Figure(f"{name}, worst", worst, None, "ms"))
        back = max((ratio for run in runs if (ratio := run.returning()) is not None), default=None)
        name = f"{connect}: chains with the NIC back, of chains without it"
        figures.append(Figure(name, back, BACK, "ratio", void=void))
    runs_told = [{"connect": connect, **asdict(run)} for connect, run in found]
    finish("Switches", figures, as_json=as_json, build_id=net.build_id, runs=runs_told)


if __name__ == "__main__":
    main()
