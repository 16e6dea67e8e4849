"""`r2cc results`: the scoreboard, measured and rendered. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.commands.options import FilePath, OutFile, json_option, quiet_option

if TYPE_CHECKING:
    from reports.scoreboard.board import Board, Cell
    from reports.scoreboard.takes import Shelf

BOARD = "docs/results/scoreboard.yaml"


@click.group("results")
def results() -> None:
    """Measure what R2CC does, and render it as one page (docs/results/scoreboard.md).

    \b
    Examples:
      r2cc results run --minutes 30
      r2cc results render
    """


def _board_argument(command: click.decorators.FC) -> click.decorators.FC:
    return click.argument("board", metavar="[FILE]", required=False, type=FilePath(dir_okay=False))(command)


def _opened(path: Path | None) -> tuple[Board, Path, Shelf]:
    from harness.repo import checkout
    from reports.scoreboard.board import load
    from reports.scoreboard.takes import Shelf

    file = path or checkout().root / BOARD
    return load(file), file, Shelf(file)


@results.command("run")
@_board_argument
@click.option("--cells", metavar="A,B", help="Only these cells.")
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    help="Begin no cell that would take longer than what is left.",
)
@click.option("--again", is_flag=True, help="Another take of cells that have all of theirs.")
@click.option("--dry-run", is_flag=True, help="Say what would be measured, and start nothing.")
@json_option("Print what was done as one JSON object.")
@quiet_option("Do not show what the commands say.")
def run(
    *,
    board: Path | None,
    cells: str | None,
    minutes: float | None,
    again: bool,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Measure the cells of the scoreboard that this machine can, and that the code as it is lacks.

    Each take is a file beside FILE, with its commit and machine. Call it again to go on: what is measured stays
    measured until r2cc_patches, harness, chaos, benchmarks, experiments or nccl_fork change. Takes from another
    machine are files to copy.

    \b
    Examples:
      r2cc results run --dry-run
      r2cc results run --minutes 30
      r2cc results run --cells stall_cable --again

    Exit codes: 0 all that this machine can is measured, 2 bad usage, 3 a cell gave no figures, or time was up.
    """
    from harness.repo import checkout
    from harness.schemas import dumped
    from reports.scoreboard.measured import Ended, go

    loaded, _, shelf = _opened(board)
    chosen = _chosen(loaded, cells)
    found: Ended = go(
        chosen, shelf, checkout().root, minutes=minutes, again=again, dry_run=dry_run, quiet=quiet,
        tell=lambda text: click.echo(text, err=as_json or not dry_run),
    )  # fmt: skip
    if as_json:
        click.echo(dumped(found))
    click.get_current_context().exit(3 if found.failed or found.left else 0)


def _chosen(board: Board, names: str | None) -> list[Cell]:
    from harness.errors import UsageError

    if names is None:
        return list(board.cells)
    by_name = {cell.name: cell for cell in board.cells}
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in by_name]
    if unknown or not wanted:
        raise UsageError(f"no cell {', '.join(unknown) or 'is named'}", f"there are {', '.join(by_name)}")
    return [by_name[name] for name in dict.fromkeys(wanted)]


@results.command("render")
@_board_argument
@click.option(
    "--check", is_flag=True, is_eager=True, help="Write nothing; exit 1 where a page is not what it would be."
)
@click.option("--html", "html_file", type=OutFile(unless="check"), help="Write a page for browsers, too.")
@click.option("--csv", "csv_file", type=OutFile(unless="check"), help="Write all figures, too.")
@click.option(
    "--readme",
    type=OutFile(unless="check"),
    help="The file that quotes it; the checkout's README.md.",
)
def render(board: Path | None, check: bool, html_file: Path | None, csv_file: Path | None, readme: Path | None) -> None:
    """Write the page beside FILE, and the table in README.md.

    \b
    Examples:
      r2cc results render
      r2cc results render --check
      r2cc results render --html scoreboard.html --csv scoreboard.csv

    Exit codes: 0 written, or up to date; 1 with --check, not up to date; 2 bad usage.
    """
    from harness.files.writing import write_whole
    from harness.repo import checkout
    from reports.scoreboard import pages
    from reports.scoreboard.figures import rows

    loaded, file, shelf = _opened(board)
    for name in shelf.unknown(loaded):
        click.echo(f"r2cc: warning: {shelf.folder / name}: {file.name} has no such cell", err=True)
    found = rows(loaded, shelf)
    front = readme or checkout().root / "README.md"
    wanted = {
        file.with_suffix(".md"): pages.markdown(loaded, found, file.stem),
        front: pages.quoted(front.read_text(encoding="utf-8"), found),
    }
    if check:
        old = [path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
        for path in old:
            click.echo(f"{path} is not up to date: r2cc results render", err=True)
        click.get_current_context().exit(1 if old else 0)
    if html_file is not None:
        wanted[html_file] = pages.html(loaded, found)
    if csv_file is not None:
        wanted[csv_file] = pages.comma_separated(found)
    for path, text in wanted.items():
        click.echo(write_whole(path, text))
