"""Tables of docs/results/simulated-jobs.md: published iterations, overheads with NICs gone, recovery cost, arms."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

import click

from chaos.simulate.cluster.arms import ARMS, Left, survives
from chaos.simulate.jobs import survival
from chaos.simulate.training.iteration import Training
from chaos.simulate.training.layout import default_layout
from chaos.simulate.training.models import MODELS, model
from chaos.simulate.training.overhead import PAPER_ADAPCC, curve, ratio
from chaos.simulate.validate import published, published_kinds
from harness.errors import R2ccError

HOST = {"gpus": 8, "nics": 8, "ports": 1}
SIZES = (64, 256, 1024, 4096, 16384)
RATIOS = (("gpt-7b", 16), ("gpt-7b", 64), ("gpt-13b", 64), ("gpt-175b", 256), ("gpt-175b", 1024), ("gpt-175b", 4096))
SLOW = ("slow", "below_rate")
SHOWN = ("exclusion", "migrate", "balance", "allreduce", "optcc")


def machines(hosts: int, rate_gbit: float = 400.0, nvlink_GBps: float = 450.0) -> tuple[Any, Any]:
    """A topology of rails in pods of 64 hosts, and its solver."""
    from chaos.simulate import params
    from chaos.simulate.cluster import topology_files as topologies
    from chaos.simulate.core import solver as core

    fabric = {"kind": "rail", "pod": min(64, hosts), "oversubscription": 1.0, "spine": True}
    rates = {"rate_gbit": rate_gbit, "nvlink_GBps": nvlink_GBps}
    loaded = topologies.load({"name": f"hosts-{hosts}", "hosts": hosts, **HOST, **rates, "fabric": fabric})
    return loaded, core.Solver(loaded, params.load({}))


def values(changed: Mapping[str, float]) -> Any:
    from chaos.simulate import params

    return params.load(dict(changed))


def training(name: str, gpus: int) -> Training:
    topology, solver = machines(gpus // 8)
    return Training(model(name), default_layout(model(name), gpus), topology, solver, values({}))


def percent(value: float) -> str:
    return "-" if value == inf else f"{value:.2%}".replace("%", " %")


def row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def head(cells: Sequence[str]) -> Iterator[str]:
    yield row(cells)
    yield "|" + "---|" * len(cells)


def published_table() -> Iterator[str]:
    yield from head(("run", "tp, pp, v, batch", "published", "modelled", "error", "source"))
    made = published.compared(lambda at: machines(at.hosts, at.rate_gbit, at.nvlink_GBps), values)
    for each in made:
        run, layout = each.run, each.run.layout
        shape = f"{layout.tp}, {layout.pp}, {layout.interleave}, {layout.batch:,}"
        times = (f"{run.iteration_s:.2f} s", f"{each.modelled_s:.2f} s", f"{each.error:+.1%}".replace("%", " %"))
        yield row((run.name + (" *" if run.fitted else ""), shape, *times, run.source))


def sizes_table() -> Iterator[str]:
    """One NIC of one host gone."""
    yield from head(("model, GPUs", "dp", "iteration", "MFU", *SHOWN))
    for name in MODELS:
        for gpus in SIZES:
            made = training(name, gpus)
            healthy = made.iteration("balance")
            cells = [percent(point.overhead) for point in curve(made, SHOWN, [1], "host")]
            yield row((f"{name}, {gpus:,}", made.layout.dp, f"{healthy.total_s:.3f} s", f"{healthy.mfu:.0%}", *cells))


def counts_table() -> Iterator[str]:
    """gpt-175b on 1,024 GPUs."""
    made = training("gpt-175b", 1024)
    for spread, title in (("host", "NICs gone of one host"), ("hosts", "hosts with one NIC gone")):
        yield from head((title, *(str(count) for count in range(1, 9))))
        for name in SHOWN:
            points = curve(made, [name], range(1, 9), "host" if spread == "host" else "hosts")
            yield row((name, *(percent(point.overhead) for point in points)))
        yield ""


def ratio_table() -> Iterator[str]:
    """Of the AdapCC-like arm's cost to ours, one NIC of one host gone."""
    yield from head(("model, GPUs", "ours", "overhead", "a fault of 1 h", "of 1 day", "the paper's"))
    for name, gpus in RATIOS:
        made = training(name, gpus)
        for ours in ("balance", "allreduce"):
            hour, day = (ratio(made, values({}), "exclusion", ours, lasts_s) for lasts_s in (3600.0, 86400.0))
            times = (_times(value) for value in (hour.lasting, hour.incident, day.incident))
            yield row((f"{name}, {gpus:,}", ours, *times, PAPER_ADAPCC))


def _times(value: float) -> str:
    """`inf`: ours costs nothing that the model sees."""
    return "inf" if value == inf else f"{value:,.1f}"


def arms_table() -> Iterator[str]:
    yield from head(("arm", "slower", "a port of two gone", "a NIC gone", "no NIC left", "source"))
    for of in ARMS.values():
        found = survives(of, values({}))
        yield row((f"`{of.name}`: {of.title}", *(found[left] for left in Left), of.source))


def coverage_table() -> Iterator[str]:
    """1,024 GPUs, one port a NIC, 200 traces of 30 days: the share of onsets after which a job goes on."""
    for kind, pod, title in (("rail", 64, "rails, pods of 64 hosts"), ("rack", 4, "one ToR for 4 hosts")):
        rows = _survived(kind, pod)
        yield from head((title, "a month", "share", *ARMS))
        for found in rows if kind == "rail" else [each for each in rows if each.kind == "tor"]:
            went_on = [f"{1 - found.arms[name]['restart']:.0%}" for name in ARMS]
            yield row((found.kind, f"{found.rate_per_month:.2f}", f"{found.share:.1%}", *went_on))
        for name, without in (
            ("all", ()),
            ("all but slow", SLOW),
            ("all but slow and flaps", (*SLOW, "flap", "lemon")),
        ):
            kept = [f"{survival.survived_share(rows, each, without=without):.1%}" for each in ARMS]
            yield row((name, "", "", *kept))
        yield ""


def _survived(kind: str, pod: int) -> list[survival.Row]:
    from chaos.simulate.cluster import topology_files as topologies
    from chaos.simulate.faults import generators, timeline

    fabric = {"kind": kind, "pod": pod, "oversubscription": 1.0, "spine": True}
    loaded = topologies.load({"name": kind, "hosts": 128, **HOST, "fabric": fabric})
    traces = (generators.generate(loaded, values({}), days=30, seed=1, index=index) for index in range(200))
    prepared = (survival.prepared(timeline.timeline(each, loaded), loaded.nics) for each in traces)
    return survival.table(prepared, values({}))


def kinds_table() -> Iterator[str]:
    """On rails with one port a NIC."""
    loaded, _ = machines(128)
    rows = published_kinds.judged(values({}), loaded)
    yield from head(("source", "kind", "how often", "leaves", *ARMS))
    for found in rows:
        kind = found.kind
        often = (
            f"{kind.share:.0%} ({kind.count})"
            if kind.share
            else f"{kind.per_month:.3%} a month"
            if kind.per_month
            else "-"
        )
        yield row((kind.source.split(" (")[0], kind.kind, often, found.left.value, *found.arms.values()))
    for source in published_kinds.shares(rows, "stock"):
        each = (f"{published_kinds.shares(rows, name)[source]:.0%}" for name in ARMS)
        yield row((source.split(" (")[0], "goes on after", "", "", *each))


TABLES: Mapping[str, Callable[[], Iterator[str]]] = {
    "published": published_table,
    "sizes": sizes_table,
    "counts": counts_table,
    "ratio": ratio_table,
    "arms": arms_table,
    "coverage": coverage_table,
    "kinds": kinds_table,
}


@click.command()
@click.argument("tables", nargs=-1, type=click.Choice(list(TABLES)))
def main(tables: tuple[str, ...]) -> None:
    """Print TABLES (all of them, if none is named) as Markdown. Everything is modelled."""
    for name in tables or TABLES:
        click.echo("\n".join(TABLES[name]()) + "\n")


if __name__ == "__main__":
    try:
        main()
    except R2ccError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
