"""What benchmarks share that print tables of docs/results: clusters, solvers, Markdown, a command that prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

import click
from common import Benchmark

from chaos.simulate import params as parameters
from chaos.simulate.cluster import topology_files
from chaos.simulate.core.solver import Solver

HOST = {"gpus": 8, "nics": 8, "ports": 1, "rate_gbit": 400.0, "nvlink_GBps": 450.0}
Tables = Mapping[str, Callable[[], Iterator[str]]]


def cluster(hosts: int, *, kind: str = "rail", pod: int = 64, **rates: float) -> Any:
    """A topology of 8 GPUs and 8 NICs a host, in pods of so many hosts."""
    fabric = {"kind": kind, "pod": min(pod, hosts), "oversubscription": 1.0, "spine": True}
    return topology_files.load({"name": f"hosts-{hosts}", "hosts": hosts, **HOST, **rates, "fabric": fabric})


def solver(topology: Any, params: Any) -> Solver:
    return Solver(topology, params)


def values(changed: Mapping[str, float] | None = None) -> Any:
    """The shipped parameters with some changed."""
    return parameters.load(dict(changed or {}))


def percent(value: float) -> str:
    return "-" if value == inf else f"{value:.2%}".replace("%", " %")


def row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def head(cells: Sequence[str]) -> Iterator[str]:
    yield row(cells)
    yield "|" + "---|" * len(cells)


def printing(tables: Tables) -> click.Command:
    """A command that prints the tables that are named, or all."""

    @click.command(cls=Benchmark)
    @click.argument("names", nargs=-1, type=click.Choice(list(tables)))
    def main(names: tuple[str, ...]) -> None:
        """Print TABLES (all of them, if none is named) as Markdown. Everything is modelled."""
        for name in names or tables:
            click.echo(f"{name}\n\n" + "\n".join(tables[name]()) + "\n")

    return main
