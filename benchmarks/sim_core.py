"""How long the simulator's core takes for one collective, by cluster size; and what remembering makes of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import click
from common import Benchmark, Figure, finish, json_option

from chaos.simulate.core.solver import Case, Shape, Solver
from harness.build import build_net
from harness.progress import show

HIT_BOUND_US = 2.0
ARMS = ("stock", "migrate", "balance", "allreduce", "optcc")
GIB = 1 << 30
MANY = 20_000


def took_us(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e6


def solving_us(hosts: int, arm: str, times: int) -> float:
    """Median of first looks: with one NIC less at one host, each with another share of a second one left."""
    solver = Solver(Shape(hosts))
    solver.solve(Case("allreduce", GIB, hosts, (), "stock"))
    cases = [Case("allreduce", GIB, hosts, ((0.0, (1 + n) / (2 + times)) + (1.0,) * 6,), arm) for n in range(times)]
    return median(took_us(partial(solver.solve, case)) for case in cases)


def remembered_us(hosts: int) -> tuple[float, float]:
    """One call that was made before: with the same list of hosts, and with the degraded ones alone."""
    solver = Solver(Shape(hosts))
    row = (0.0,) + (1.0,) * 7
    nodes = (row,) + ((1.0,) * 8,) * (hosts - 1)
    case = Case("allreduce", GIB, hosts, (row,), "balance")
    solver.collective("allreduce", GIB, nodes, "balance")
    solver.solve(case)

    def listed() -> None:
        for _ in range(MANY):
            solver.collective("allreduce", GIB, nodes, "balance")

    def alone() -> None:
        for _ in range(MANY):
            solver.solve(case)

    return took_us(listed) / MANY, took_us(alone) / MANY


@click.command(cls=Benchmark)
@click.option("--hosts", default="16,128,1024", show_default=True, help="Sizes, of 8 NICs each.")
@click.option("--times", type=click.IntRange(1), default=9, show_default=True)
@json_option
def main(*, hosts: str, times: int, as_json: bool) -> None:
    """Exit code 1 if what was solved before takes over the bound."""
    build_net(progress=show)
    sizes = [int(word) for word in hosts.split(",")]
    rows = [
        {
            "hosts": size,
            **{f"{arm}_us": solving_us(size, arm, times) for arm in ARMS},
            **dict(zip(("same_list_us", "same_case_us"), remembered_us(size), strict=True)),
        }
        for size in sizes
    ]
    worst = max(max(row["same_list_us"], row["same_case_us"]) for row in rows)
    title = "\n".join("  ".join(f"{name} {value:,.2f}" for name, value in row.items()) for row in rows)
    finish(title, [Figure("what was solved before", worst, HIT_BOUND_US, "us")], as_json=as_json, rows=rows)


if __name__ == "__main__":
    main()
