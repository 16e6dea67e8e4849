"""Tables of docs/results/simulated-jobs.md: published iterations, overheads with NICs gone, recovery cost, arms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from math import inf
from typing import Any

from sim_tables import Tables, cluster, head, printing, ranged, row, solver, values
from simulated import published, published_kinds, survival
from simulated.overhead import PAPER_ADAPCC, Spread, curve, ratio
from simulated.published_kinds import survives

from chaos.simulate.assumed import OVERLAPS, REACTIONS, Changes, over, spans, variants
from chaos.simulate.cluster.arms import ARMS, Left
from chaos.simulate.faults import generators, timeline
from chaos.simulate.training.iteration import Training
from chaos.simulate.training.layout import default_layout
from chaos.simulate.training.models import MODELS, model

SIZES = (64, 256, 1024, 4096, 16384)
RATIOS = (("gpt-7b", 16), ("gpt-7b", 64), ("gpt-13b", 64), ("gpt-175b", 256), ("gpt-175b", 1024), ("gpt-175b", 4096))
SLOW = ("slow", "below_rate")
SHOWN = ("exclusion", "migrate", "balance", "allreduce", "optcc")
FLOORED = " †"
"""The schedule takes no longer with the NICs that are left than NCCL's own with all of them (Iteration.floored)."""


@cache
def _machines(gpus: int) -> tuple[Any, Any]:
    """A cluster and its solver: what is varied here changes no collective."""
    topology = cluster(gpus // 8)
    return topology, solver(topology, values())


def training(name: str, gpus: int, changes: Changes | None = None) -> Training:
    return Training(model(name), default_layout(model(name), gpus), *_machines(gpus), values(changes))


def trainings(name: str, gpus: int) -> list[Training]:
    """As shipped, and with what of communication is not hidden taken a third and three times."""
    return [training(name, gpus, changes) for changes in ({}, *variants(values(), OVERLAPS))]


def overheads(made: Sequence[Training], arms: Sequence[str], counts: Sequence[int], spread: Spread) -> list[str]:
    """Cells: an overhead as shipped with its range, and whether the floor counts."""
    found = [curve(each, arms, counts, spread) for each in made]
    ranges = spans([point.overhead for point in found[0]], [[point.overhead for point in each] for each in found[1:]])
    return [ranged(each) + FLOORED * point.floored for each, point in zip(ranges, found[0], strict=True)]


def published_machines(at: published.Cluster) -> tuple[Any, Any]:
    topology = cluster(at.hosts, rate_gbit=at.rate_gbit, nvlink_GBps=at.nvlink_GBps)
    return topology, solver(topology, values())


def published_table() -> Iterator[str]:
    yield from head(("run", "tp, pp, v, batch", "published", "modelled", "error", "source"))
    made = published.compared(published_machines, values)
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
            made = trainings(name, gpus)
            healthy = made[0].iteration("balance")
            cells = overheads(made, SHOWN, [1], "host")
            yield row(
                (f"{name}, {gpus:,}", made[0].layout.dp, f"{healthy.total_s:.3f} s", f"{healthy.mfu:.0%}", *cells)
            )


def counts_table() -> Iterator[str]:
    """gpt-175b on 1,024 GPUs."""
    made = trainings("gpt-175b", 1024)
    titles: tuple[tuple[Spread, str], ...] = (("host", "NICs gone of one host"), ("hosts", "hosts with one NIC gone"))
    for spread, title in titles:
        yield from head((title, *(str(count) for count in range(1, 9))))
        for name in SHOWN:
            yield row((name, *overheads(made, [name], range(1, 9), spread)))
        yield ""


def ratio_table() -> Iterator[str]:
    """Of the AdapCC-like arm's cost to ours, one NIC of one host gone."""
    yield from head(("model, GPUs", "ours", "overhead", "a fault of 1 h", "of 1 day", "the paper's"))
    for name, gpus in RATIOS:
        for ours in ("balance", "allreduce"):
            found = over(partial(_ratios, name, gpus, ours), values(), OVERLAPS, REACTIONS)
            floored = curve(training(name, gpus), [ours], [1], "host")[0].floored
            cells = [ranged(each, _times) + FLOORED * floored for each in found]
            yield row((f"{name}, {gpus:,}", ours, *cells, PAPER_ADAPCC))


def _ratios(name: str, gpus: int, ours: str, changes: Changes) -> list[float]:
    """While a fault lasts, and over faults of an hour and of a day."""
    made = training(name, gpus, changes)
    hour, day = (ratio(made, made.params, "exclusion", ours, lasts_s) for lasts_s in (3600.0, 86400.0))
    return [hour.lasting, hour.incident, day.incident]


def _times(value: float) -> str:
    """`inf`: ours costs nothing that the model sees."""
    return "inf" if value == inf else f"{value:,.1f}"


def arms_table() -> Iterator[str]:
    yield from head(("arm", "slower", "a port of two gone", "a NIC gone", "no NIC left", "source"))
    for of in ARMS.values():
        found = survives(of, values())
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
    loaded = cluster(128, kind=kind, pod=pod)
    traces = (generators.generate(loaded, values(), days=30, seed=1, index=index) for index in range(200))
    prepared = (survival.prepared(timeline.timeline(each, loaded), loaded.nics) for each in traces)
    return survival.table(prepared, values())


def kinds_table() -> Iterator[str]:
    """On rails with one port a NIC."""
    rows = published_kinds.judged(values(), cluster(128))
    yield from head(("source", "kind", "how often", "leaves", *ARMS))
    for found in rows:
        kind = found.kind
        often = f"{kind.per_month:.3%} a month" if kind.per_month else "-"
        often = f"{kind.share:.0%} ({kind.count})" if kind.share else often
        yield row((kind.source.split(" (")[0], kind.kind, often, found.left.value, *found.arms.values()))
    for source in published_kinds.shares(rows, "stock"):
        each = (f"{published_kinds.shares(rows, name)[source]:.0%}" for name in ARMS)
        yield row((source.split(" (")[0], "goes on after", "", "", *each))


TABLES: Tables = {
    "published": published_table, "sizes": sizes_table, "counts": counts_table, "ratio": ratio_table,
    "arms": arms_table, "coverage": coverage_table, "kinds": kinds_table,
}  # fmt: skip
main = printing(TABLES, plain=("arms", "kinds"))

if __name__ == "__main__":
    main()
