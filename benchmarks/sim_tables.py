"""What benchmarks share that print tables of docs/results: clusters, solvers, Markdown, a command that prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf, isfinite
from typing import Any

import click
from common import Benchmark

from chaos.simulate import params as parameters
from chaos.simulate.assumed import Span
from chaos.simulate.cluster import topology_files
from chaos.simulate.core.solver import Solver
from chaos.simulate.unmodelled import NOT_MODELLED

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
    return "-" if value == inf else f"{value:.2%}".replace("-0.00%", "0.00%").replace("%", " %")


def ranged(found: Span, show: Callable[[float], str] = percent) -> str:
    """A figure as shipped, and how low and how high it gets with what is assumed; one figure where all are shown
    alike."""
    shown = show(found.value)
    low, high = show(found.low), show(found.high)
    if low == high or not isfinite(found.value):
        return shown
    return f"{shown} ({low.removesuffix(' %') if high.endswith(' %') else low} to {high})"


def row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def head(cells: Sequence[str]) -> Iterator[str]:
    yield row(cells)
    yield "|" + "---|" * len(cells)


def printing(tables: Tables, plain: Sequence[str] = ()) -> click.Command:
    """A command that prints the tables that are named, or all. All but `plain` ones are of simulated networks: they say
    what is not modelled."""

    @click.command(cls=Benchmark)
    @click.argument("names", nargs=-1, type=click.Choice(list(tables)))
    def main(names: tuple[str, ...]) -> None:
        """Print TABLES (all of them, if none is named) as Markdown. Everything is modelled."""
        for name in names or tables:
            parts = "\n".join(tables[name]()).strip("\n").split("\n\n")
            told = [] if name in plain else [NOT_MODELLED]
            click.echo("\n\n".join([name, *(text for part in parts for text in (part, *told))]) + "\n")

    return main
