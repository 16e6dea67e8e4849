"""`r2cc compare`: runs beside each other. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reports.runs_cmd import store_option

if TYPE_CHECKING:
    from reports.compare.model import Comparison, Group
    from reports.store.entry import Entry


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@store_option
@click.option("--format", "kind", type=click.Choice(["terminal", "md", "csv", "json"]), default="terminal")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def compare(runs: tuple[str, ...], store: Path, kind: str, as_json: bool) -> None:
    """Compare runs with the first of them; of one run alone, its arms.

    RUN is an id of the store, its beginning, a tag, or a run directory. Runs of one build are repeats of each other,
    when there are several builds. Says *better*, *worse*, *no difference shown* or *not comparable because ...*: the
    exit code is 0 whatever it says (`r2cc ci gate` judges).

    \b
    Examples:
      r2cc compare before-update after-update
      r2cc compare runs/20261125T0339*
      r2cc compare 20261125T033938 --format md
    """
    from reports.compare import text

    found = _compared([_entry(name, store) for name in runs])
    if as_json or kind == "json":
        click.echo(json.dumps({"schema": 1, "comparisons": [each.as_json() for each in found]}, allow_nan=False))
    elif kind == "terminal":
        _show(found)
    else:
        click.echo(text.markdown(found) if kind == "md" else text.comma_separated(found), nl=False)


def _entry(name: str, store: Path) -> Entry:
    from reports.store import entry
    from reports.store.store import opened

    folder = Path(name)
    if folder.is_dir() and entry.is_run(folder):
        return entry.read(folder.resolve())
    with opened(store) as found:
        return found.find(name)


def _compared(runs: Sequence[Entry]) -> list[Comparison]:
    from harness.errors import UsageError
    from reports.compare.model import arms_of, compare, grouped

    groups: list[Group] = arms_of(runs[0]) if len(runs) == 1 else grouped(runs)
    if len(groups) < 2:
        raise UsageError(f"{runs[0].id} has one arm: there is nothing to compare it with", "name two runs")
    return [compare(groups[0], each) for each in groups[1:]]


def _show(found: Sequence[Comparison]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from reports.compare import text

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
    colours = {"better": "green", "worse": "red"}
    for comparison in found:
        console.print(
            f"[bold]{escape(comparison.after)}[/] against {escape(comparison.before)}: {escape(comparison.verdict)}"
        )
        for line in comparison.differs:
            console.print(f"  {escape(line)}")
        if not comparison.rows:
            continue
        table = Table(box=None, pad_edge=False)
        for name in text.HEADER:
            table.add_column(name, justify="left" if name in ("arm", "figure", "outcome") else "right")
        for row in comparison.rows:
            table.add_row(*map(escape, text.cells(row)), style=colours.get(row.outcome))
        console.print(table)
