"""`r2cc report`: render run directories again, from their journals alone."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from harness.commands.options import FilePath, OutFolder, json_option, quiet_option
from harness.config.plain import printable
from harness.errors import InfraError, R2ccError, UsageError
from reports.commands.runs import store_option

FORMATS = ("terminal", "md", "json", "html", "csv", "junit")


def _parse_formats(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, ...]:
    asked = [part.strip() for part in value.split(",") if part.strip()]
    if "all" in asked:
        return FORMATS
    unknown = [name for name in asked if name not in FORMATS]
    if unknown or not asked:
        raise click.BadParameter(
            f"{', '.join(unknown) or 'nothing'} is no format; choose from {', '.join(FORMATS)} or all"
        )
    return tuple(dict.fromkeys(asked))


@click.command("report")
@click.argument("directories", metavar="RUN...", nargs=-1, required=True, type=FilePath())
@store_option
@click.option(
    "--format",
    "formats",
    default="terminal,md,html",
    callback=_parse_formats,
    help="Comma-separated: terminal, md, json, html, csv, junit; or all.",
)
@click.option(
    "--out",
    type=OutFolder(),
    help="Write files here instead of into each run directory.",
)
@click.option(
    "--figures", type=click.Choice(["pdf", "png"]), help="Write figures for papers, too; needs r2cc[figures]."
)
@json_option("The same as --format json.")
@quiet_option("Print no verdict and no paths.")
def report(
    directories: tuple[Path, ...],
    *,
    store: Path,
    formats: tuple[str, ...],
    out: Path | None,
    figures: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Render reports of RUNs from their journals, and of simulations. RUN is a run directory, or an id of the store.

    A single `md`, `json`, `csv` or `junit` goes to standard output unless --out is given. The exit code says whether
    the reports could be made, not what they say: `r2cc chaos run` judged that.

    \b
    Examples:
      r2cc report runs/20261125T0339*
      r2cc report 20261125T0339 --format md
      r2cc report 20261125T0339 --figures pdf --out paper
    """
    chosen = ("json",) if as_json else formats
    errors = []
    for given in directories:
        try:
            directory = _directory(given, store)
            target = _target(directory, out, len(directories))
            _report_one(directory, chosen, target, to_stdout=out is None and not figures, quiet=quiet, figures=figures)
        except R2ccError as error:
            errors.append(error)
    _raise(errors)


def _directory(given: Path, store: Path) -> Path:
    """A run directory itself, or that of an id, its beginning or a tag."""
    if given.exists() or not store.is_dir():
        return given
    from reports.store.store import opened

    with opened(store) as found:
        return store / found.find(str(given)).folder


def _raise(errors: Sequence[R2ccError]) -> None:
    """One by itself, several as one; nothing without any."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        kind = UsageError if all(isinstance(error, UsageError) for error in errors) else InfraError
        raise kind("\n".join([*(error.message for error in errors), "all others were reported"]))


def _target(directory: Path, out: Path | None, count: int) -> Path:
    if out is None:
        return directory
    return out / directory.resolve().name if count > 1 else out


def _report_one(
    directory: Path, formats: tuple[str, ...], target: Path, *, to_stdout: bool, quiet: bool, figures: str | None
) -> None:
    from harness.files.writing import check_folder
    from harness.progress import show
    from reports.reporters.run import opened
    from reports.simulation.model import is_simulation

    if directory.is_file():
        raise UsageError(f"{directory} is a file, and a run is a folder", "r2cc runs list shows runs")
    if is_simulation(directory) and figures:
        raise UsageError(f"{directory} is a simulation, of which there are no figures for papers", "--format html")
    if is_simulation(directory) and formats == ("junit",):
        raise UsageError(f"{directory} is a simulation, of which there is no JUnit", "use md, json, html or csv")
    printed = len(formats) == 1 and formats[0] not in ("terminal", "html") and to_stdout
    if figures:
        from reports.papers.style import check

        check()
    if directory.is_dir() and (figures or not (printed or formats == ("terminal",))):
        check_folder(target)
    write, run = opened(directory, show)
    files = [kind for kind in formats if kind in write.FILES]
    if printed and files:
        click.echo(write.render(run, files[0]), nl=False)
        return
    paths = [write.write(run, kind, target) for kind in files]
    if figures:
        from reports.papers.write import write as write_figures

        paths += write_figures(run, figures, target)
    if quiet:
        return
    if "terminal" in formats:
        write.show(run, sys.stdout)
    for path in paths:
        click.echo(printable(str(path)))
