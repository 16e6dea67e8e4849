"""`r2cc compare`: runs beside each other. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.commands.options import json_option, quiet_option
from harness.schemas import dumped
from reports.commands.runs import store_option

if TYPE_CHECKING:
    from rich.table import Table

    from reports.compare.model import Comparison


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@store_option
@click.option(
    "--format",
    "kind",
    type=click.Choice(["terminal", "md", "csv", "json"]),
    default="terminal",
    help="How to print it.",
)
@json_option("The same as --format json.")
@quiet_option(given=False)
def compare(runs: tuple[str, ...], store: Path, kind: str, as_json: bool) -> None:
    """Compare runs with the first of them; of one run alone, its arms.

    RUN is an id of the store, its beginning, a tag, or a run directory. RUN:ARM is one arm of it alone.

    Runs are grouped by what differs among them: build, arms, testbed, hardware, experiment. Those that differ in
    nothing are repeats.

    The answers are *better*, *worse*, *no difference shown*, *too few runs* and *not comparable because ...*. The exit
    code is 0 whatever they are: `r2cc ci gate` judges.

    \b
    Examples:
      r2cc compare before-update after-update
      r2cc compare runs/20261125T0339*
      r2cc compare 20261125T033938 --format md
      r2cc compare 20261125T0339:stock 20261125T0401:balance
    """
    from reports.compare import text
    from reports.compare.model import Compared
    from reports.compare.named import compared

    found = compared(store, runs)
    if as_json or kind == "json":
        click.echo(dumped(Compared(found)))
    elif kind == "terminal":
        _show(found)
    else:
        click.echo(text.markdown(found) if kind == "md" else text.comma_separated(found), nl=False)


def _show(found: Sequence[Comparison]) -> None:
    from rich.console import Console
    from rich.markup import escape

    from reports.compare import text

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
    colours = {"better": "green", "worse": "red"}
    for comparison in found:
        console.print(
            f"[bold]{escape(comparison.after)}[/] against {escape(comparison.before)}: {escape(comparison.verdict)}"
        )
        for line in text.about(comparison):
            console.print(f"  {escape(line)}")
        if comparison.rows:
            styles = [colours.get(row.outcome) for row in comparison.rows]
            console.print(_table(text.HEADER, [text.cells(row) for row in comparison.rows], styles))
        if comparison.nics:
            console.print(_table(text.NIC_HEADER, [text.nic_cells(row) for row in text.shown_nics(comparison)]))
        if rest := text.left_out(comparison):
            console.print(rest)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str | None] = ()) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in header:
        table.add_column(name, justify="left" if name in ("arm", "figure", "outcome", "NIC") else "right")
    for index, row in enumerate(rows):
        table.add_row(*map(escape, row), style=styles[index] if styles else None)
    return table
