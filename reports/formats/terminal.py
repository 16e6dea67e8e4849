"""The verdict and the arms side by side, on a terminal or as plain text when piped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from harness.config.plain import printable
from reports.formats import view
from reports.reading.rundir import RunDir
from reports.words import cells, names

COLOURS = {"holds": "green", "deviated": "red", "failed": "magenta", "void": "yellow"}
STATES = {"good": "green", "bad": "bold red", "void": "yellow"}


def show(run: RunDir, file: TextIO) -> None:
    """Print the report. Names come from outside: they are printed as text, never read as markup or control codes."""
    from rich.console import Console
    from rich.text import Text

    v = view.build(run)
    console = Console(file=file, highlight=False, markup=False, width=None if file.isatty() else 110)
    mark = Text(
        f"{names.icon(v.verdict)} {names.verdict(v.verdict)}  ", style=f"bold {COLOURS.get(v.verdict, 'white')}"
    )
    console.print(mark.append(printable(v.headline), style="bold default"))
    for remark in v.remarks:
        console.print(Text(f"  {printable(remark)}"))
    for note in v.notes:
        console.print(Text(f"  incomplete: {printable(note)}", style="yellow"))
    if v.side_by_side:
        _print_table(console, v.arms, v.side_by_side)
    if v.checks:
        _print_table(console, v.arms, v.checks, "Checks")


def _print_table(console: object, arms: Sequence[str], rows: Sequence[cells.Row], title: str = "") -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    assert isinstance(console, Console)
    table = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
    table.add_column("", style="bold", no_wrap=True)
    for arm in arms:
        table.add_column(Text(printable(names.arm(arm))))
    for row in rows:
        table.add_row(
            Text(printable(row.name)), *[Text(printable(c.plain()), style=STATES.get(c.state, "")) for c in row.cells]
        )
    console.print(table)
