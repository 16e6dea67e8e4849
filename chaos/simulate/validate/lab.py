"""The simulator beside the lab's own all-reduces, 4, 5 and 8 hosts: all rows of the schedules' benchmark but void ones.

A ring is spread by the net and computed as a fluid. Other schedules run as the bench's programs, on the NICs where it
places them: message by message. Nothing here is fitted to
these rows: costs are the lab's profile; MTU, token buckets and slots are the lab's and the bench's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from chaos.simulate.core.solver import Capacities, Shape, Solver
from chaos.simulate.validate.checks import Check, near
from chaos.simulate.validate.misses import LAB, MIB, known_miss
from harness.schedules.costs import model
from harness.workers import crew

WITHIN = 0.05
STEMS = dict(zip(LAB, ("", "", "afterwards, ", "afterwards, quiet, "), strict=True))
BURST_BYTES = 65536
"""What a NIC's token bucket holds, at the rates of these rows (harness/lab/plan.py)."""
WORKERS = 2
RING = "ring"


class Asked(NamedTuple):
    """What the bench ran. `flows` 0: a ring, which the net spreads over what is left."""

    hosts: int
    nics: int
    degraded: int
    rate_gbit: float
    bytes: int
    schedule: str
    flows: int


class Row(NamedTuple):
    name: str
    asked: Asked
    healthy: Asked
    ratio: float
    source: str
    known: str


def raw(file: str) -> Path:
    from harness.repo import checkout

    return checkout().root / "docs" / "results" / "raw" / "schedules" / file


def lab_solver(
    hosts: int, nics: int, rate_gbit: float, even_rails: int, more: Mapping[str, float] | None = None
) -> Solver:
    """Rails are bridges of their own. `even_rails` 0: the bench places a plan's connections so that they make room."""
    shape = Shape(hosts, nics=nics, rate_gbit=rate_gbit, spine=False)
    chunk = max(8192, 2556 * (hosts - 1))  # the bench's (benchmarks/schedules.py)
    costs = model.load(model.LAB).complete
    params = {**costs, "chunk_bytes": chunk, "channels": 0, "even_rails": even_rails}
    return Solver(shape, {**params, **(more or {})})


def checks() -> Iterator[Check]:
    rows = [row for file in LAB for row in _rows(file)]
    times = _solved(list(dict.fromkeys(asked for row in rows for asked in (row.asked, row.healthy))))
    for row in rows:
        ours = times[row.asked] / times[row.healthy]
        yield near(row.name, ours, row.ratio, WITHIN, row.source, known=row.known)


def _solved(asked: Sequence[Asked]) -> dict[Asked, float]:
    """Those that take longest first, so that both processes end together."""
    todo = sorted(asked, key=lambda each: each.flows * each.hosts * each.bytes, reverse=True)
    with crew(WORKERS, fork=True) as pool:
        return dict(zip(todo, pool.map(time_us, todo), strict=True))


def time_us(asked: Asked) -> float:
    solver = lab_solver(asked.hosts, asked.nics, asked.rate_gbit, even_rails=0)
    left: Capacities = (0.0,) + (1.0,) * (asked.nics - 1)
    nodes = [(1.0,) * asked.nics] * asked.hosts
    nodes[1 : 1 + asked.degraded] = [left] * asked.degraded  # h1, and h2 beside it
    if asked.flows:
        return solver.program_us(asked.bytes, nodes, asked.schedule, flows=asked.flows, burst_bytes=BURST_BYTES)
    return solver.collective("allreduce", asked.bytes, nodes, asked.schedule).time_us


def _rows(file: str) -> Iterator[Row]:
    source = f"docs/results/raw/schedules/{file}"
    for number, one in enumerate(json.loads(raw(file).read_text())["sets"]):
        settings = one["settings"]
        healthy = {run["case"]: run["median_ms"] for run in one["runs"] if run["schedule"] == "healthy"}
        for run in one["runs"]:
            if not counts(run, one["runs"]):
                continue
            bed = f"lab {settings['rate_gbit']:g} Gbit/s, {STEMS[file]}set {number}"
            name = f"{bed}, {run['case']}, {settings['bytes'] // MIB} MiB: {run['schedule']}"
            ratio = run["median_ms"] / healthy[run["case"]]
            yield Row(name, *_asked(run, settings), ratio, source, known_miss(run, file, settings))


def counts(run: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> bool:
    """Neither it nor the healthy ring beside it is void."""
    whole = [each for each in runs if each["case"] == run["case"] and each["schedule"] == "healthy"]
    return run["schedule"] != "healthy" and not run["void"] and not any(each["void"] for each in whole)


def _asked(run: Mapping[str, Any], settings: Mapping[str, Any]) -> tuple[Asked, Asked]:
    """The run, and the healthy ring beside it."""
    hosts, nics = sizes(run["case"])
    degraded = 2 if run["case"].endswith("two") else 1
    bed = (settings["rate_gbit"], settings["bytes"])
    if run["runs"] in {RING, "balance"}:
        return Asked(hosts, nics, degraded, *bed, RING, 0), Asked(hosts, nics, 0, *bed, RING, 0)
    schedule = run["runs"]  # what `auto` chose
    return Asked(hosts, nics, degraded, *bed, schedule, run["channels"]), Asked(hosts, nics, 0, *bed, RING, nics)


def sizes(case: str) -> tuple[int, int]:
    hosts, nics = case.split("-", maxsplit=1)[0].split("x")
    return int(hosts), int(nics)
