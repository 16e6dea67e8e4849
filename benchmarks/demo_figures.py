"""The demo's figures, measured against their bounds, from one or more run directories.

    .venv/bin/python benchmarks/demo_figures.py runs/<time>-nic_down runs/<time>-black_hole

Exit code: 0 every figure holds, 1 one misses, 2 bad usage, 3 none misses but one is void (the machine was too busy).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from harness.errors import R2ccError
from reports.reading import rundir

Json = dict[str, Any]
STALL_MS = {"link_down": 10.0, "black_hole": 100.0}
"""Per kind of fault; kinds that are not named have no bound of their own."""
ITERATION_OVER_BOUND = 1.10
HEALTHY_RATIO = 1.01
UNDISTURBED_RATIO = 1.10
MEMORY_BYTES = 8 << 20
HOLDS, MISSES, VOID, SHOWN = "holds", "MISSES", "void", "shown"


@dataclass(frozen=True)
class Figure:
    """One line of the table. `bound` is None for what is only shown."""

    run: str
    arm: str
    name: str
    measured: float | None
    bound: float | None
    unit: str
    outcome: str


def judge(measured: float | None, bound: float | None, *, void: bool) -> str:
    """A figure that could not be measured misses, unless the run is void: it must not pass for want of a number."""
    if bound is None:
        return SHOWN
    if void:
        return VOID
    return HOLDS if measured is not None and measured <= bound else MISSES


def figures(name: str, summary: Json) -> list[Figure]:
    """Every figure of a run directory's summary."""
    found: list[Figure] = []
    for arm in summary["arms"]:
        for run in arm["runs"]:
            label = name if len(arm["runs"]) == 1 else f"{name} #{run['run'] + 1}"
            found += list(_stock(label, arm, run) if arm["mode"] == 0 else _ours(label, arm, run))
        if arm["mode"] > 0:
            found += list(_against_stock(name, arm))
    return found


def _stock(label: str, arm: Json, run: Json) -> Iterator[Figure]:
    """Shown, not judged: stock is what we compare with. Its results must be exact all the same."""
    yield _exact(label, arm, run)
    for fault in run["faults"]:
        yield Figure(label, arm["name"], f"stall, {fault['kind']}", fault["stall_ms"], None, "ms", SHOWN)
        yield Figure(label, arm["name"], f"iteration, {fault['kind']}", fault["iteration_ms"], None, "ms", SHOWN)


def _ours(label: str, arm: Json, run: Json) -> Iterator[Figure]:
    void = bool(run["void"])

    def line(name: str, measured: float | None, bound: float | None, unit: str) -> Figure:
        return Figure(label, arm["name"], name, measured, bound, unit, judge(measured, bound, void=void))

    yield _exact(label, arm, run)
    for fault in run["faults"]:
        kind = str(fault["kind"])
        yield line(f"stall, {kind}", fault["stall_ms"], STALL_MS.get(kind), "ms")
        share = _over(fault["iteration_ms"], fault["iteration_bound_ms"])
        yield line(f"failover iteration / bound, {kind}", share, ITERATION_OVER_BOUND, "ratio")
    worst = next((m["value"] for m in run["metrics"] if m["name"] == "undisturbed_worst"), None)
    yield line("slowest other iteration / healthy", worst, UNDISTURBED_RATIO, "ratio")


def _exact(label: str, arm: Json, run: Json) -> Figure:
    """Exactness is never void; a run that did not complete has not shown it."""
    wrong = float(run["wrong_elements"]) if run["completed"] else None
    complete_or_stock = run["completed"] or arm["mode"] == 0
    outcome = HOLDS if run["wrong_elements"] == 0 and complete_or_stock else MISSES
    return Figure(label, arm["name"], "wrong elements, all iterations", wrong, 0.0, "elements", outcome)


def _against_stock(label: str, arm: Json) -> Iterator[Figure]:
    """Only there when a stock arm ran beside ours."""
    void = any(run["void"] for run in arm["runs"])
    known = {metric["name"]: metric["value"] for metric in arm["metrics"]}
    if "healthy_ratio" in known:
        ratio = known["healthy_ratio"]
        outcome = judge(ratio, HEALTHY_RATIO, void=void)
        yield Figure(label, arm["name"], "healthy iteration / stock", ratio, HEALTHY_RATIO, "ratio", outcome)
    if "rank_memory_over_stock" in known:
        memory = known["rank_memory_over_stock"]
        outcome = judge(memory, MEMORY_BYTES, void=False)
        yield Figure(label, arm["name"], "memory of a rank over stock", memory, MEMORY_BYTES, "bytes", outcome)


def _over(value: float | None, bound: float | None) -> float | None:
    return value / bound if value is not None and bound else None


def exit_code(found: Sequence[Figure]) -> int:
    """1 before 3: what misses was measured."""
    outcomes = {figure.outcome for figure in found}
    if MISSES in outcomes or not found:
        return 1
    return 3 if VOID in outcomes else 0


def show(found: Sequence[Figure]) -> str:
    """The table as text: measured/bound, aligned."""
    rows = [("run", "arm", "figure", "measured/bound", "")]
    rows += [
        (f.run, f.arm, f.name, f"{_number(f, f.measured)}/{_number(f, f.bound)} {_unit(f)}", f.outcome) for f in found
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _number(figure: Figure, value: float | None) -> str:
    if value is None:
        return "-"
    if figure.unit == "bytes":
        return f"{value / (1 << 20):.1f}"
    return f"{value:.0f}" if figure.unit == "elements" else f"{value:.3f}" if figure.unit == "ratio" else f"{value:.1f}"


def _unit(figure: Figure) -> str:
    return {"bytes": "MiB", "ratio": ""}.get(figure.unit, figure.unit)


@click.command()
@click.argument("directories", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def main(directories: tuple[Path, ...], as_json: bool) -> None:
    """Print the demo's figures of run directories as measured/bound."""
    found: list[Figure] = []
    try:
        for directory in directories:
            found += figures(directory.resolve().name, rundir.load(directory).summary)
    except R2ccError as error:
        click.echo(f"demo_figures: error: {error}", err=True)
        sys.exit(error.exit_code)
    click.echo(json.dumps([asdict(f) for f in found], indent=1) if as_json else show(found))
    sys.exit(exit_code(found))


if __name__ == "__main__":
    main()
