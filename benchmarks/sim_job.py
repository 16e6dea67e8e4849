"""What a month of failures costs, and how long that takes to simulate: many traces of a cluster with every arm, and one
trace of a large one; with ranges over assumed rates and repair times, and over seeds."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import click
import numpy as np
from common import Benchmark, Figure, json_option
from sim_tables import cluster, values

from chaos.simulate.assumed import Span, rates, repairs, span, variants
from chaos.simulate.cluster.arms import ARMS
from chaos.simulate.core.solver import Solver
from chaos.simulate.faults import generators, timeline
from chaos.simulate.jobs.job import Job, JobResult, prepared, simulate, training
from chaos.simulate.training.layout import default_layout
from chaos.simulate.training.models import MODELS, model
from chaos.simulate.unmodelled import NOT_MODELLED
from harness.errors import UsageError

MANY_BOUND_S, LARGE_BOUND_S, MEMORY_BOUND_GiB = 60.0, 10.0, 2.0
PARTS = ("progress_s", "slow_s", "stalls_s", "checkpoints_s", "lost_s", "down_s")


@dataclass(frozen=True)
class Block:
    """Traces that one process simulates."""

    gpus: int
    model: str
    days: float
    seed: int
    traces: range
    spares: int
    changes: Mapping[str, float]


@dataclass(frozen=True)
class Done:
    """`sums` by arm: of PARTS, wall clock, restarts and GPU hours lost."""

    sums: Mapping[str, Sequence[float]]
    faults: int
    intervals: int
    solved: int
    rss_GiB: float


def run_block(block: Block) -> Done:
    machines, shipped = cluster(block.gpus // 8), values(block.changes)
    solver = Solver(machines, shipped)
    made = model(block.model)
    job = Job(made, default_layout(made, block.gpus), machines, spares=block.spares)
    sums = {name: np.zeros(len(PARTS) + 3) for name in ARMS}
    faults = intervals = 0
    for index in block.traces:
        trace = generators.generate(machines, shipped, days=block.days, seed=block.seed, index=index)
        spans = timeline.timeline(trace, machines)
        faults, intervals = faults + len(trace.faults), intervals + len(spans)
        ready = prepared(job, spans, solver, shipped)
        for name in ARMS:
            sums[name] += _figures(simulate(job, name, ready, solver, shipped))
    rss_GiB = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    listed = {name: [float(value) for value in found] for name, found in sums.items()}
    return Done(listed, faults, intervals, training(job, solver, shipped).solved, rss_GiB)


def _figures(result: JobResult) -> list[float]:
    return [*(getattr(result, name) for name in PARTS), result.wall_s, result.restarts, result.gpu_hours_lost]


def blocks(
    gpus: int,
    name: str,
    *,
    days: float,
    traces: int,
    workers: int,
    spares: int | None,
    seed: int,
    changes: Mapping[str, float] | None = None,
) -> Iterator[Block]:
    """Every trace has streams of its own, so that the number of workers changes nothing."""
    size = -(-traces // workers)
    kept = max(2, gpus // 512) if spares is None else spares
    for start in range(0, traces, size):
        yield Block(gpus, name, days, seed, range(start, min(start + size, traces)), kept, changes or {})


def timed(work: Sequence[Block], workers: int) -> tuple[float, list[Done]]:
    start = time.perf_counter()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        done = list(pool.map(run_block, work))
    return time.perf_counter() - start, done


def months(done: Sequence[Done]) -> dict[str, dict[str, float]]:
    """Of each arm what a month comes to."""
    found = {arm: _shares(np.sum([each.sums[arm] for each in done], axis=0)) for arm in ARMS}
    stock = found["stock"]["gpu_hours_lost"]
    for month in found.values():
        month["usd_saved"] = (stock - month["gpu_hours_lost"]) * float(values().gpu_hour_usd.value)
        month["saved"] = 1 - month["gpu_hours_lost"] / stock if stock else 0.0
    return found


def others(
    gpus: int, name: str, traces: int, seeds: int, workers: int, **same: Any
) -> list[dict[str, dict[str, float]]]:
    """Months with a third of what is assumed and with three times as much, and of other seeds."""
    shipped, first = values(), int(same.pop("seed"))
    changed: list[dict[str, float]] = [{}, *variants(shipped, rates(shipped), repairs(shipped))]
    cases = [(changes, seed) for seed in range(first, first + seeds) for changes in changed]
    work = [
        list(blocks(gpus, name, traces=traces, workers=1, seed=seed, changes=changes, **same))
        for changes, seed in cases
    ]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return [months([done]) for done in pool.map(run_block, [block for each in work for block in each])]


def summary(
    name: str, took_s: float, bound_s: float, done: Sequence[Done], varied: Sequence[dict[str, dict[str, float]]]
) -> dict[str, Any]:
    arms = months(done)
    rss_GiB = sum(each.rss_GiB for each in done)
    return {
        "name": name,
        "took_s": took_s,
        "bound_s": bound_s,
        "rss_GiB": rss_GiB,
        "holds": took_s <= bound_s and rss_GiB <= MEMORY_BOUND_GiB,
        **{key: sum(getattr(each, key) for each in done) for key in ("faults", "intervals", "solved")},
        "arms": arms,
        "ranges": {arm: _ranges(month, [each[arm] for each in varied]) for arm, month in arms.items()},
        "not_modelled": NOT_MODELLED,
    }


def _ranges(month: Mapping[str, float], varied: Sequence[Mapping[str, float]]) -> dict[str, Span]:
    return {key: span(value, [each[key] for each in varied]) for key, value in month.items()}


def _shares(total: Any) -> dict[str, float]:
    wall_s, months = total[len(PARTS)], total[len(PARTS)] / (30 * 86400)
    shares = {name.removesuffix("_s"): float(value / wall_s) for name, value in zip(PARTS, total, strict=False)}
    return {**shares, "restarts": float(total[-2] / months), "gpu_hours_lost": float(total[-1] / months)}


def figures(found: Mapping[str, Any]) -> list[Figure]:
    return [
        Figure(f"{found['name']}: time", found["took_s"], found["bound_s"], "s"),
        Figure(f"{found['name']}: memory", found["rss_GiB"], MEMORY_BOUND_GiB, "GiB"),
    ]


def show(found: Mapping[str, Any]) -> None:
    verdict = "holds" if found["holds"] else "MISSES"
    took = f"{found['took_s']:.1f} s of {found['bound_s']:g} s, {found['rss_GiB']:.2f} GiB of {MEMORY_BOUND_GiB:g} GiB"
    click.echo(f"{found['name']}: {took}: {verdict}")
    click.echo(f"  {found['faults']} faults, {found['intervals']} intervals, {found['solved']} collectives solved")
    heads = "".join(f"{head:>9}" for head in ("goodput", "slow", "stalls", "lost", "down"))
    click.echo(f"  {'arm':15}{heads}{'restarts':>10}{'GPU h lost':>12}  a month")
    for arm, row in found["arms"].items():
        parts = "".join(f"{row[key]:9.3%}" for key in ("progress", "slow", "stalls", "lost", "down"))
        click.echo(f"  {arm:15}{parts}{row['restarts']:10.2f}{row['gpu_hours_lost']:12.0f}")
    click.echo("  a third to three times of assumed rates and repair times, and all seeds; lowest to highest")
    click.echo(f"  {'arm':15}{'goodput':>20}{'restarts':>17}{'GPU h lost':>22}{'of stock saved':>20}{'USD saved':>22}")
    for arm, row in found["ranges"].items():
        click.echo(f"  {arm:15}{_between(row)}")
    click.echo(f"  {found['not_modelled']}")


def _between(row: Mapping[str, Span]) -> str:
    columns = (
        ("progress", 20, "{:.3%}"), ("restarts", 17, "{:.2f}"), ("gpu_hours_lost", 22, "{:.0f}"),
        ("saved", 20, "{:.1%}"), ("usd_saved", 22, "{:.0f}"),
    )  # fmt: skip
    return "".join(
        f"{form.format(row[key].low)} to {form.format(row[key].high)}".rjust(wide) for key, wide, form in columns
    )


@click.command(cls=Benchmark)
@click.option("--model", "name", type=click.Choice(list(MODELS)), default="gpt-175b", show_default=True)
@click.option("--gpus", type=int, default=1024, show_default=True, help="Of the cluster with many traces.")
@click.option("--traces", type=click.IntRange(1), default=1000, show_default=True)
@click.option(
    "--large", type=int, default=16384, show_default=True, help="GPUs of the cluster with one trace; 0: none."
)
@click.option("--days", type=float, default=30.0, show_default=True)
@click.option("--spares", type=click.IntRange(0), help="Hosts; default: one for 64, at least 2.")
@click.option("--workers", type=click.IntRange(1), default=2, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True, help="Of the ranges: from --seed on.")
@click.option(
    "--range-traces", type=click.IntRange(1), default=200, show_default=True, help="Traces of each month of the ranges."
)
@json_option
def main(
    *,
    name: str,
    gpus: int,
    traces: int,
    large: int,
    days: float,
    spares: int | None,
    workers: int,
    seed: int,
    seeds: int,
    range_traces: int,
    as_json: bool,
) -> None:
    """Simulate, and exit with 1 if it takes longer, or more memory, than the bounds."""
    if gpus % 64 or large % 64:
        raise UsageError("GPUs come in multiples of 64")
    found: list[dict[str, Any]] = []
    same: dict[str, Any] = {"days": days, "spares": spares, "seed": seed}
    took_s, done = timed(list(blocks(gpus, name, traces=traces, workers=workers, **same)), workers)
    varied = others(gpus, name, min(traces, range_traces), seeds, workers, **same)
    found.append(summary(f"{gpus:,} GPUs x {days:g} days x {traces:,} traces", took_s, MANY_BOUND_S, done, varied))
    if large:
        took_s, done = timed(list(blocks(large, name, traces=1, workers=1, **same)), 1)
        varied = others(large, name, 1, seeds, workers, **same)
        found.append(summary(f"{large:,} GPUs x {days:g} days x 1 trace", took_s, LARGE_BOUND_S, done, varied))
    if as_json:
        told = [figure.as_json() for each in found for figure in figures(each)]
        click.echo(json.dumps({"model": name, "seed": seed, "workers": workers, "figures": told, "runs": found}))
    else:
        click.echo(f"{name}, {workers} processes, seed {seed}, every arm; modelled")
        for each in found:
            show(each)
    sys.exit(0 if all(each["holds"] for each in found) else 1)


if __name__ == "__main__":
    main()
