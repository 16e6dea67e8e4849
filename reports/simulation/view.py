"""Everything a simulation's report says in tables, in the order in which it says it. Renderers only print it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.simulate.unmodelled import NOT_MODELLED
from reports.simulation import sentence, words
from reports.simulation.model import Simulation, names_of
from reports.words.cells import Cell, Tile
from reports.words.units import NONE

FOLDED = 12
"""Tables that have more rows are folded."""
ROWS = 400
"""Of the table of all figures; figures.csv has all."""
PASSING = ("flap", "slow")
"""Kinds that outnumber all others, and mostly pass by themselves."""
OUTCOMES = {"survived": "survived", "degraded": "survived, slower", "restart": "restart"}


@dataclass(frozen=True)
class Table:
    """A table with a name; `about` stands above it."""

    id: str
    title: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    fold: bool = False
    wide: bool = False


@dataclass(frozen=True)
class View:
    """A whole report but for its figures."""

    name: str
    title: str
    verdict: str
    headline: str
    remarks: Sequence[str]
    tiles: Sequence[Tile]
    tables: Sequence[Table] = field(default_factory=list)
    facts: Sequence[tuple[str, str]] = field(default_factory=list)


def build(sim: Simulation) -> View:
    """From simulation.json alone."""
    made = (papers(sim), ratios(sim), coverage(sim), checks(sim), figures(sim), params(sim))
    tables = [table for table in made if table.rows]
    return View(
        sim.name, str(sim.value["title"]), str(sim.value["verdict"]), sentence.headline(sim), list(_remarks(sim)),
        sentence.tiles(sim), tables, list(_facts(sim)),
    )  # fmt: skip


def _remarks(sim: Simulation) -> Iterator[str]:
    yield "Every figure here is modelled, unless it says measured or published. What went into it is in the last table."
    yield NOT_MODELLED
    faults = sim.value["faults"]
    if faults.get("rates") is not None:
        traces = f"{faults['traces']:,} traces of {faults['days']:g} days"
        yield f"{traces}, drawn from published failure rates; all arms see the same."


def papers(sim: Simulation) -> Table:
    """The papers' figures beside ours."""
    rows = [
        [
            Cell(words.figure(row["name"], sim.kind)[0], words.arm(row["arm"]), head=True),
            Cell(words.at(row["at"])),
            Cell(_relation(row), "published"),
            Cell(words.value(row["ours"], row["unit"]) + sentence.around(sim, row), "modelled"),
            _difference(row),
            Cell(row["source"], row["note"]),
        ]
        for row in sim.value["references"]
    ]
    head = ("Figure", "Where", "Theirs", "Ours", "Difference", "Source")
    return Table("papers", "The papers’ figures beside ours", "Published values, and what this model gives", head, rows)


def _relation(row: Mapping[str, Any]) -> str:
    sign = {"at_most": "at most ", "at_least": "at least "}.get(row["relation"], "")
    return f"{sign}{words.value(row['value'], row['unit'])}"


def _difference(row: Mapping[str, Any]) -> Cell:
    """Runs of older versions do not say whether a figure was met."""
    ours, difference = row["ours"], row["difference"]
    missed = row.get("outcome") == "missed"
    state = "bad" if missed else ""
    if ours is None:
        return Cell("missed" if missed else NONE, state=state)
    inside = {"at_most": ours <= row["value"], "at_least": ours >= row["value"]}.get(row["relation"])
    if inside:
        return Cell("within")
    told = NONE if difference is None else f"{difference * 100:+.1f} %"
    return Cell(f"missed, {told}" if missed else told, state=state)


def ratios(sim: Simulation) -> Table:
    """Figures of one arm over another's."""
    rows = [
        [
            Cell(words.figure(each["name"], sim.kind)[0], words.arm(arm), head=True),
            Cell(words.at(at)),
            Cell(words.value(each["value"], each["unit"]), "modelled"),
        ]
        for at, arm, each in sim.ratios()
    ]
    head = ("Ratio", "Where", "Value")
    fold = len(rows) > FOLDED
    return Table("ratios", "One arm over another", "Means over all traces, divided", head, rows, fold)


def coverage(sim: Simulation) -> Table:
    """Which kinds of failure are survived."""
    found = sim.value["coverage"]
    arms = list(dict.fromkeys(arm for row in found for arm in row["arms"]))
    rows = [
        [
            Cell(str(row["kind"]).replace("_", " "), head=True),
            Cell(words.plain(row["rate_per_month"])),
            Cell(NONE if row["share"] is None else words.percent(row["share"])),
            *(_outcome(row["arms"].get(arm)) for arm in arms),
        ]
        for row in found
    ]
    rows += [_survived(found, arms, "all")] if rows else []
    lasting = [row for row in found if row["kind"] not in PASSING]
    if lasting and len(lasting) < len(found):
        rows.append(_survived(lasting, arms, f"all but {' and '.join(PASSING)}"))
    head = ("Kind of failure", "a month", "of all", *(words.arm(arm) for arm in arms))
    caption = (
        "What each arm does at each kind of network failure, with how often it comes: without a restart, or with one"
    )
    return Table("coverage", "Which failures are survived", caption, head, rows, wide=True)


def _outcome(found: Mapping[str, Any] | None) -> Cell:
    if not found or found["outcome"] is None:
        return Cell(NONE)
    state = {"survived": "good", "degraded": "good", "restart": "bad"}.get(found["outcome"], "")
    share = found[found["outcome"]]
    return Cell(
        OUTCOMES.get(found["outcome"], found["outcome"]), "" if share in (None, 1) else words.percent(share), state
    )


def _survived(rows: Sequence[Mapping[str, Any]], arms: Sequence[str], name: str) -> list[Cell]:
    """Of these failures together."""
    total = sum(row["rate_per_month"] for row in rows)
    share = sum(row["share"] or 0 for row in rows)
    cells = [Cell(name, head=True), Cell(words.plain(total)), Cell(words.percent(share))]
    for arm in arms:
        ended = sum(row["rate_per_month"] * (row["arms"].get(arm, {}).get("restart") or 0) for row in rows)
        cells.append(Cell(words.percent(1 - ended / total) if total else NONE, "without a restart"))
    return cells


def checks(sim: Simulation) -> Table:
    """What the file expects, and what came of it."""
    rows = [
        [
            Cell(check["name"].replace("_", " "), head=True),
            Cell("unknown" if check["value"] is None else f"{check['value']:.4g}"),
            Cell(str(check["bound"])),
            Cell(check["outcome"], state="good" if check["outcome"] == "holds" else "bad"),
        ]
        for check in sim.value["checks"]
    ]
    head = ("Check", "Value", "Limit", "Outcome")
    return Table("checks", "What was checked", "Every expectation of the file", head, rows, len(rows) > FOLDED)


def figures(sim: Simulation) -> Table:
    """All figures, as far as a page can hold them."""
    names = names_of(sim.value["points"])
    points = [point for point in sim.value["points"] if point["arm"] in sim.arms]
    rows = [
        [Cell(words.at(point["at"]), head=True), Cell(words.arm(point["arm"])), *_values(point, names)]
        for point in points[:ROWS]
    ]
    left = len(points) - len(rows)
    caption = "Means over traces, with the range in which nine of ten lie. Modelled."
    caption += f" {left} more rows are in figures.csv." if left > 0 else ""
    shown = [name for name in names if name not in {each["name"] for _, _, each in sim.ratios()}]
    head = ("Where", "Arm", *(words.figure(name, sim.kind)[0] for name in shown))
    return Table("figures", "All figures", caption, head, rows, fold=True, wide=True)


def _values(point: Mapping[str, Any], names: Sequence[str]) -> Iterator[Cell]:
    known = {each["name"]: each for each in point["figures"]}
    for name in names:
        each = known.get(name)
        if each is None:
            yield Cell(NONE)
            continue
        spread = each["low"] is not None and each["low"] != each["high"]
        note = (
            f"{words.value(each['low'], each['unit'])} to {words.value(each['high'], each['unit'])}" if spread else ""
        )
        yield Cell(words.value(each["value"], each["unit"]), note)


def params(sim: Simulation) -> Table:
    """What went in."""
    rows = [
        [
            Cell(str(each["name"]), head=True),
            Cell(_param(each["value"], str(each["unit"]))),
            Cell(str(each["basis"])),
            Cell(str(each["source"])),
        ]
        for each in sim.value["params"]
    ]
    head = ("Parameter", "Value", "Basis", "Source")
    caption = "Each with where it comes from: measured by us, published by others, or assumed"
    return Table("params", "What went into it", caption, head, rows, fold=True)


def _param(value: Any, unit: str) -> str:
    shown = f"{value:,.6g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
    return f"{shown} {unit}".strip()


def _facts(sim: Simulation) -> Iterator[tuple[str, str]]:
    value = sim.value
    topology = value["topology"]
    hosts = f"{topology['hosts']:,} hosts, {topology['gpus']} GPUs and {topology['nics']} NICs each"
    yield "Cluster", f"{topology.get('name', '')}: {hosts}, {topology['rate_gbit']:g} Gbit/s a NIC".removeprefix(": ")
    for section in ("workload", "faults"):
        told = ", ".join(f"{key} {_fact(each)}" for key, each in value[section].items() if each is not None)
        yield section.capitalize(), told
    yield "Seed", str(value["seed"])
    traces = [f"{name}: {seed}" for name, seed in value["streams"].items() if name != "experiment"]
    if traces:
        yield "Seeds of traces", f"{', '.join(traces[:4])}{', …' if len(traces) > 4 else ''} (simulation.json has more)"
    yield "Computed by", f"r2cc {value['code']}"


def _fact(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key} {_fact(each)}" for key, each in value.items() if each is not None) + ")"
    if isinstance(value, list):
        return f"{len(value)} entries" if len(value) > 6 else "[" + ", ".join(map(_fact, value)) + "]"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
