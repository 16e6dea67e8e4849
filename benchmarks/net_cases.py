#!/usr/bin/env python3
"""Every case of the net library, beside stock: what is done, what was seen, what is right.

See docs/internals/net-cases.md.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from common import Figure, json_option

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "lab"))
from netcases import drawn
from netcases.all_cases import CASES
from netcases.play import Case, Outcome, Shape, stage

from harness.commands.options import nccl_option
from harness.errors import R2ccError

StockMs = dict[tuple[Shape, int], float]
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True)
class Row:
    """One case in one mode."""

    case: str
    done: str
    right: str
    mode: int
    seen: str
    problems: list[str]
    figures: dict[str, Any]
    took_s: float

    @property
    def held(self) -> bool:
        return not self.problems


def play(case: Case, mode: int, driver: Path, library: Path, stock_ms: StockMs) -> Row:
    """A case that cannot be played at all is one that did not hold, and says why."""
    start = time.monotonic()
    try:
        with stage(driver, library, mode, stock_ms) as made:
            found = case.play(made)
    except (R2ccError, AssertionError) as error:
        found = Outcome("not played", [str(error)])
    return Row(
        case.name,
        case.done,
        case.right,
        mode,
        found.seen,
        found.problems,
        found.figures,
        round(time.monotonic() - start, 1),
    )


def table(rows: Sequence[Row], before: Sequence[Row] = ()) -> str:
    """A line a case and mode of ours: what stock does, what ours did before (where that is known) and does now."""
    stock = {row.case: row.seen for row in rows if row.mode == 0}
    earlier = {(row.case, row.mode): _cell(row) for row in before}
    head = ["case", "what is done", "stock", *(["before"] if before else []), "R2CC", "right"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        if row.mode == 0:
            continue
        name = row.case if row.mode == 1 else f"{row.case}, mode {row.mode}"
        was = [earlier.get((row.case, row.mode), "-")] if before else []
        lines.append([name, row.done, stock.get(row.case, "-"), *was, _cell(row), row.right])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def figures(rows: Sequence[Row]) -> list[Figure]:
    """What is wrong with each case, aim 0, and the times of its record: of several, the longest."""
    found = []
    for row in rows:
        name = f"{row.case}, mode {row.mode}"
        found.append(Figure(f"{name}: not right", len(row.problems), 0, "", judged=row.mode != 0))
        for key, value in row.figures.items():
            times = value if isinstance(value, list) else [value]
            if key.endswith("_ms") and times and all(isinstance(ms, int | float) for ms in times):
                found.append(Figure(f"{name}: {key}", max(times), None, "ms"))
    return found


def _cell(row: Row) -> str:
    return (
        row.seen
        if row.held
        else f"**no**: {row.seen if row.seen in row.problems[0] else '; '.join([row.seen, row.problems[-1]])}"
    )


def load(path: Path | None) -> list[Row]:
    return [Row(**row) for row in json.loads(path.read_text())] if path else []


def chosen(names: Sequence[str], long: bool) -> list[Case]:
    known = {name: CASES.get(name) or drawn.case(name) for name in names}
    if unknown := [name for name, case in known.items() if case is None]:
        raise click.BadParameter(f"no case {', '.join(unknown)}; there are drawn-NUMBER, {', '.join(CASES)}")
    return [case for case in known.values() if case is not None] or [
        case for case in CASES.values() if long or not case.long
    ]


def played(cases: Sequence[Case], library: Path | None, modes: Sequence[int], version: str | None) -> list[Row]:
    """Builds what is needed. Raises R2ccError when it cannot."""
    from harness.build import build_net, run_target
    from harness.repo import checkout

    layout = checkout(version)
    built = build_net(layout=layout)
    run_target("driver", layout=layout)
    driver, stock_ms, rows = built.library.with_name("net_driver"), StockMs(), []
    for case in cases:
        for mode in [mode for mode in (0, *case.modes) if mode in modes]:
            rows.append(play(case, mode, driver, library or built.library, stock_ms))
            why = "; ".join(rows[-1].problems) or "held"
            click.echo(f"{case.name}, mode {mode}: {rows[-1].seen}; {why}", err=True)
    return rows


@click.command(help=__doc__)
@click.argument("names", nargs=-1)
@click.option("--library", type=FILE, help="Another than the checkout's build.")
@nccl_option()
@click.option("--long", is_flag=True, help="Those of over ten seconds, too.")
@click.option("--no-stock", is_flag=True, help="Only R2CC's modes.")
@click.option("--from", "recorded", type=FILE, help="Play nothing: rows that --save wrote.")
@click.option("--before", type=FILE, help="Rows that --save wrote: one more column.")
@json_option
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Write the rows there as JSON.")
def main(
    *,
    names: tuple[str, ...],
    library: Path | None,
    version: str | None,
    long: bool,
    no_stock: bool,
    recorded: Path | None,
    before: Path | None,
    as_json: bool,
    save: Path | None,
) -> None:
    try:
        rows = load(recorded) or played(chosen(names, long), library, (1, 2) if no_stock else (0, 1, 2), version)
    except R2ccError as error:
        raise click.ClickException(str(error)) from error
    records = [asdict(row) for row in rows]
    if save:
        save.write_text(json.dumps(records, indent=1) + "\n")
    told = {"figures": [figure.as_json() for figure in figures(rows)], "rows": records}
    click.echo(json.dumps(told, indent=1) if as_json else table(rows, load(before)))
    sys.exit(0 if all(row.held for row in rows if row.mode) else 1)


if __name__ == "__main__":
    main()
