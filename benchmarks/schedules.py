"""AllReduce schedules beside a degraded host, run in the lab: measured beside the planner's prediction and the bound.

    .venv/bin/python benchmarks/schedules.py [--cases 4x2,8x2] [--schedules chain,optcc] [--rate 0.2] [--json]
    .venv/bin/python benchmarks/schedules.py --fit --cases 4x2
    .venv/bin/python benchmarks/schedules.py --whole --cases 4x8 --schedules tree --rate 0.04 --mib 256 --idle-us 1000

A case is hosts x NICs with one NIC of h1 gone (`8x2-two`: of h1 and h2), which all ranks take for failed from the start
(R2CC_ASSUME_DOWN). Times are medians, relative to the healthy ring of the same lab. A run is void when the machine was
over 85 % busy; what the NICs carried and whether the results are exact is judged all the same.

`--whole` runs each schedule with nothing gone, too: what the lost NIC costs that schedule itself.

`--fit` measures at three sizes and prints the planner's cost parameters of this bed, for `--cost`, also of `r2cc plan`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import click
from common import MIB, Benchmark, Figure, Json, finish, json_option, lock_option, locked, table
from plan_fit import Pair, costs_of, fitted, words
from plan_runs import Run, run_plan

from harness.build import NetBuild, build_net
from harness.errors import R2ccError
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.progress import silent
from harness.schedules.planner import Nic, Node, Request, Schedule, plan, plan_json
from harness.schemas import dumped
from harness.workloads.bench import BenchSpec

BUSY = 0.85
SLOTS = 3
"""Chunks in flight a connection; see slots_of."""
SMALLER, TINY_BYTES = 4, 4096
"""Of a fit: how many times smaller the smaller size is, and a size whose bytes take no time."""
HEALTHY = "healthy"
WHOLE = " whole"
"""A schedule with nothing gone."""
DEGRADED = "h1"
OURS = ("auto", "chain", "chain_fixed", "tree")
SCHEDULES: tuple[Schedule, ...] = ("auto", "balance", "published", "chain_fixed", "chain", "optcc", "tree")


@dataclass(frozen=True)
class Case:
    """`at_most`: how long the best of ours may take, beside the healthy ring (issue 5)."""

    name: str
    hosts: int
    nics: int
    down: tuple[str, ...] = ("h1:eth0",)
    at_most: float | None = None
    at_most_of_whole: float | None = None
    """The same of a tree, beside that tree with nothing gone (issue 35, item 2)."""

    def nodes(self, healthy: bool, rate_gbit: float) -> tuple[Node, ...]:
        return tuple(
            Node(
                f"h{host}",
                (host,),
                tuple(
                    Nic(f"eth{nic}", rate_gbit, 1.0 if healthy or f"h{host}:eth{nic}" not in self.down else 0.0)
                    for nic in range(self.nics)
                ),
            )
            for host in range(self.hosts)
        )


CASES = (
    Case("3x3", 3, 3),
    Case("4x2", 4, 2, at_most=1.38),
    Case("5x2", 5, 2),
    Case("8x2", 8, 2, at_most=1.22),
    Case("4x4", 4, 4, at_most=1.12),
    Case("5x4", 5, 4),
    Case("8x4", 8, 4, at_most=1.08),
    Case("4x8", 4, 8, at_most_of_whole=1.03),
    Case("8x8", 8, 8, at_most_of_whole=1.03),
    Case("8x2-two", 8, 2, ("h1:eth0", "h2:eth0")),
    Case("4x2-two", 4, 2, ("h1:eth0", "h2:eth0")),
)


def channels_of(schedule: str, nics: int, parts: int) -> int:
    """Sub-flows of a part. More of them divide the load more evenly over the NICs, and cost more. Few chains need more
    than many: four flows for each NIC are enough. OptCC has a connection for every shard as it is."""
    if schedule in (HEALTHY, "balance", "published"):
        return nics
    return 2 if schedule == "optcc" else min(nics, max(2, -(-4 * nics // parts)))


def slots_of(schedule: str, nics: int) -> int:
    """Chunks in flight a connection. With more, one that others wait for stands in a long queue
    (docs/internals/bench.md). A
    ring whose lost NIC is spread over seven had them wait for one another: it takes seven since."""
    return max(SLOTS, nics - 1) if schedule == "balance" else SLOTS


def chunk_of(hosts: int) -> int:
    """The bench's smallest chunk in pipelines of so many hosts (plan_schedule.cc), which is what it mostly uses."""
    return max(8192, 2556 * (hosts - 1))


def mode_of(schedule: str) -> int:
    """A ring needs the net to balance (2). A plan's connections are placed on what is left (1): where some share a NIC
    with more others than their siblings do, mode 2 takes it for slow and moves them from where they belong."""
    return 2 if schedule in (HEALTHY, "balance") else 1


@dataclass(frozen=True)
class Measured:
    """One schedule of one case."""

    case: str
    schedule: str
    runs: str
    channels: int
    slots: int
    predicted_ms: float
    bound_ms: float
    run: Run
    predicted_node_bytes: dict[str, dict[str, float]]

    @property
    def void(self) -> bool:
        return self.run.busy > BUSY

    def row(self, healthy: Measured | None) -> list[str]:
        beside = f"{self.run.median_ms / healthy.run.median_ms:.3f}" if healthy else ""
        return [
            self.case,
            self.schedule + (f" ({self.runs})" if self.runs != self.schedule else ""),
            f"{self.run.median_ms:.1f}",
            beside,
            f"{self.run.median_ms / self.predicted_ms:.3f}",
            f"{self.run.median_ms / self.bound_ms:.3f}",
            f"{100 * self.run.nic_error():.1f} %",
            f"{100 * self.run.spread:.1f} %",
            f"{100 * self.run.busy:.0f} %" + (" void" if self.void else ""),
        ]

    def as_json(self) -> Json:
        return {**asdict(self), "median_ms": self.run.median_ms, "void": self.void, "nic_error": self.run.nic_error()}


HEAD = ["case", "schedule", "ms", "/healthy", "/predicted", "/bound", "NICs off by", "spread", "busy"]


@dataclass(frozen=True)
class Session:
    """What all runs share."""

    net: NetBuild
    folder: Path
    rate_gbit: float
    bytes: int
    iterations: int
    channels: int
    idle_us: int
    extra: Mapping[str, float] = field(default_factory=dict)

    def cost(self, case: Case) -> dict[str, float]:
        """Placed connections make room for each other on the rails."""
        return {"even_rails": 0, "chunk_bytes": chunk_of(case.hosts), **self.extra}

    def measure(self, lab: Lab, case: Case, name: str) -> Measured:
        schedule = name.removesuffix(WHOLE)
        healthy = schedule == HEALTHY or schedule != name
        wanted: Any = "ring" if schedule == HEALTHY else schedule
        request = Request(case.nodes(healthy, self.rate_gbit), self.bytes, schedule=wanted, cost=self.cost(case))
        planned = plan(request)
        file = self.folder / f"{case.name}-{name}.json"
        file.write_text(plan_json(dumped(request)))
        runs = schedule if schedule == HEALTHY else planned.schedule  # what `auto` chose
        channels = self.channels or channels_of(runs, case.nics, len(planned.parts))
        slots = slots_of(runs, case.nics)
        spec = BenchSpec(
            bytes=self.bytes, iterations=self.iterations, warmup=2, channels=channels, slots=slots, plan=file,
            idle_us=self.idle_us,
        )  # fmt: skip
        run = run_plan(lab, self.net, spec, down=() if healthy else case.down, mode=mode_of(runs))
        nodes = {node.name: {"tx": node.tx_bytes, "rx": node.rx_bytes} for node in planned.nodes}
        return Measured(
            case.name, name, runs, channels, slots, planned.predicted_us / 1e3, planned.bound_us / 1e3, run, nodes
        )


def judge(case: Case, found: Sequence[Measured]) -> list[Figure]:
    """The issue's figures: every schedule beside the healthy ring, the best of ours with its aim; OptCC beside its
    model; and what the degraded host h1 receives of a message beside what it does in the healthy ring."""
    by_name = {each.schedule: each for each in found}
    figures = []
    healthy = by_name.get(HEALTHY)
    ours = [by_name[name] for name in OURS if name in by_name]
    best = min(ours, key=lambda each: each.run.median_ms, default=None)
    for name in SCHEDULES:
        each = by_name.get(name)
        if each is None or healthy is None:
            continue
        ratio = each.run.median_ms / healthy.run.median_ms
        void = each.void or healthy.void
        aim = case.at_most if each is best else None
        figures.append(Figure(f"{case.name}: {name}", ratio, aim, "x the healthy ring", void=void))
        received = each.run.received(DEGRADED) / healthy.run.received(DEGRADED)
        figures.append(Figure(f"{case.name}: {name}: {DEGRADED} receives", received, None, "x the healthy ring"))
        if name == "optcc":
            model = each.run.median_ms / each.predicted_ms
            figures.append(Figure(f"{case.name}: optcc beside its model", model, 1.05, "x predicted", void=void))
        whole = by_name.get(name + WHOLE)
        if whole and whole.runs == each.runs:  # with nothing gone the planner may say a ring
            ratio, void = each.run.median_ms / whole.run.median_ms, each.void or whole.void
            aim = case.at_most_of_whole if name == "tree" else None
            figures.append(Figure(f"{case.name}: {name} beside itself whole", ratio, aim, "x whole", void=void))
    return figures


def two_ends(found: Sequence[Measured]) -> list[Figure]:
    """Two degraded hosts at the ends of chains beside one."""
    times = {(each.case, each.schedule): each for each in found}
    figures = []
    for hosts in ("4x2", "8x2"):
        one, two = times.get((hosts, "chain")), times.get((f"{hosts}-two", "chain"))
        if one and two:
            ratio, void = two.run.median_ms / one.run.median_ms, one.void or two.void
            figures.append(Figure(f"{hosts}: two degraded hosts", ratio, 1.10, "x one's time", void=void))
    return figures


def say(line: str) -> None:
    click.echo(line, err=True)


def run_case(session: Session, case: Case, schedules: Sequence[str], lock: Path | None) -> list[Measured]:
    found: list[Measured] = []
    with Lab.up(Topology(hosts=case.hosts, nics=case.nics, rate_gbit=session.rate_gbit)) as lab:
        for schedule in (HEALTHY, *schedules):
            try:
                with locked(lock):
                    found.append(session.measure(lab, case, schedule))
            except R2ccError as error:  # the others' figures are not lost with it
                say(f"error: {case.name} {schedule}: {error}")
                continue
            say("  ".join(found[-1].row(found[0])))
    return found


def fit(session: Session, case: Case, lock: Path | None) -> dict[str, float]:
    """The planner's cost parameters for this bed: from all at two sizes, and a ring at a third."""
    bare = {"hop_us": 0, "local_hop_us": 0, "ring_efficiency": 1, "chain_efficiency": 1, "staged_efficiency": 1}
    found: dict[str, list[Measured]] = {}
    tiny = run_case(replace(session, bytes=TINY_BYTES), case, (), lock)[0]
    for size in (session.bytes // SMALLER, session.bytes):
        for each in run_case(replace(session, bytes=size, extra=bare), case, ("chain_fixed", "optcc"), lock):
            found.setdefault(each.schedule, []).append(each)
    pairs = {
        name: Pair(
            (1e3 * small.run.median_ms, 1e3 * large.run.median_ms), (1e3 * small.predicted_ms, 1e3 * large.predicted_ms)
        )
        for name, (small, large) in found.items()
    }
    return fitted(pairs, 1e3 * tiny.run.median_ms, case.hosts)


@click.command(cls=Benchmark, help="AllReduce schedules beside a degraded host")
@click.option("--cases", default=",".join(case.name for case in CASES), show_default=True)
@click.option("--schedules", default=",".join(SCHEDULES), show_default=True)
@click.option("--rate", "rate_gbit", type=click.FloatRange(0.01, 32), default=0.2, show_default=True, help="Of a NIC.")
@click.option("--mib", type=click.IntRange(1, 1024), default=32, show_default=True, help="Bytes of a rank.")
@click.option("--iterations", type=click.IntRange(1, 1000), default=7, show_default=True)
@click.option("--channels", default=0, show_default=True, help="Sub-flows of a part; 0: as many as are good for it.")
@click.option(
    "--idle-us", type=click.IntRange(1, 10_000), default=200, show_default=True,
    help="How long a rank sleeps when nothing moved.",
)  # fmt: skip
@click.option("--whole", is_flag=True, help="Each schedule with nothing gone, too.")
@click.option("--fit", "fits", is_flag=True, help="Print the planner's cost parameters for each case instead.")
@click.option("--cost", "cost", metavar="NAME=VALUE,...", multiple=True, help="The planner's parameters, as measured.")
@lock_option
@json_option
def main(
    *,
    cases: str,
    schedules: str,
    rate_gbit: float,
    mib: int,
    iterations: int,
    channels: int,
    idle_us: int,
    whole: bool,
    fits: bool,
    cost: tuple[str, ...],
    lock: Path | None,
    as_json: bool,
) -> None:
    wanted = schedules.split(",")
    unknown = set(wanted) - set(get_args(Schedule)) | set(cases.split(",")) - {case.name for case in CASES}
    if unknown:
        raise click.UsageError(f"there is no {', '.join(sorted(unknown))}")
    net = build_net(progress=silent)
    figures: list[Figure] = []
    found: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="r2cc-plans-") as folder:
        session = Session(net, Path(folder), rate_gbit, mib * MIB, iterations, channels, idle_us, costs_of(cost))
        for case in (case for case in CASES if case.name in cases.split(",")):
            if fits:
                click.echo(f"{case.name}: --cost {words(fit(session, case, lock))}")
                continue
            runs = [run for name in wanted for run in ([name + WHOLE, name] if whole else [name])]
            measured = run_case(session, case, runs, lock)
            figures += judge(case, measured)
            found += measured
    if fits:
        return
    figures += two_ends(found)
    wrong = sum(each.run.wrong_elements for each in found)
    figures.append(Figure("wrong elements", wrong, 0, ""))
    healthy = {each.case: each for each in found if each.schedule == HEALTHY}
    rows = table([HEAD, *(each.row(healthy.get(each.case)) for each in found)])
    settings = {"rate_gbit": rate_gbit, "bytes": mib * MIB, "iterations": iterations, "idle_us": idle_us}
    settings |= {"build_id": net.build_id}
    if not as_json:
        click.echo(rows)
    finish("Schedules", figures, as_json=as_json, settings=settings, runs=[each.as_json() for each in found])


if __name__ == "__main__":
    main()
