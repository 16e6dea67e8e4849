"""`r2cc runs`: the store of run directories. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.commands.options import FilePath, OutFolder, json_option, quiet_option
from harness.schemas import dumped

if TYPE_CHECKING:
    from reports.store.entry import Entry, Figure

F = TypeVar("F", bound=Callable[..., Any])
AGE = re.compile(r"(\d+)([hdw])")
MOST_WARNED = 5
UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def store_option(command: F) -> F:
    """The folder that every command of the store works on."""
    return click.option(
        "--store",
        type=FilePath(file_okay=False),
        default=Path("runs"),
        envvar="R2CC_STORE",
        help="Folder of run directories.",
    )(command)


def age(_ctx: click.Context, _param: click.Parameter, value: str | None) -> timedelta | None:
    """`12h`, `30d` or `8w`."""
    if value is None:
        return None
    found = AGE.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"'{value}' is no age; write it as 12h, 30d or 8w")
    return timedelta(**{UNITS[found[2]]: int(found[1])})


@click.group()
def runs() -> None:
    """The runs in a store: what there is, what came of it, which are kept.

    \b
    Examples:
      r2cc runs list --experiment 'nic_*' --since 7d
      r2cc runs show 20261125T0339
      r2cc runs tag 20261125T0339 before-update
      r2cc runs prune --keep 20 --dry-run
    """


@runs.command(name="list")
@store_option
@click.option("--experiment", metavar="NAME", help="Only runs of this experiment; * and ? work as in a shell.")
@click.option("--verdict", help="Only runs with this verdict: holds, deviated, failed, void, unfinished or unreadable.")
@click.option("--tag", help="Only runs with this tag.")
@click.option("--build", "build_id", metavar="ID", help="Only runs of this build.")
@click.option("--since", callback=age, metavar="AGE", help="Only runs that are not older: 12h, 30d, 8w.")
@click.option("--limit", type=click.IntRange(1), default=50, help="The most runs to show, newest first.")
@json_option()
@quiet_option(given=False)
def list_(store: Path, *, since: timedelta | None, limit: int, as_json: bool, **asked: str | None) -> None:
    """Show runs, newest first.

    \b
    Examples:
      r2cc runs list
      r2cc runs list --experiment 'nic_*' --since 7d --verdict deviated
    """
    from reports.store.entry import Runs
    from reports.store.store import Wanted, opened

    when = datetime.now(UTC) - since if since is not None else None
    with opened(store) as found:
        runs_found = found.runs(Wanted(**asked, since=when, limit=limit))
        warn(found.unreadable())
    if as_json:
        click.echo(dumped(Runs(str(store), [run.shown() for run in runs_found])))
        return
    _table(runs_found)
    if len(runs_found) == limit:
        click.echo(f"the newest {limit}; --limit shows more", err=True)


def warn(unreadable: Sequence[Entry]) -> None:
    """Names runs that cannot be read, on standard error: everything else works."""
    for run in unreadable[:MOST_WARNED]:
        click.echo(f"r2cc: warning: {run.id} cannot be read: {run.reason}", err=True)
    if len(unreadable) > MOST_WARNED:
        more = f"{len(unreadable) - MOST_WARNED} more cannot be read"
        click.echo(f"r2cc: warning: {more}; r2cc runs list --verdict unreadable", err=True)


def _table(found: Sequence[Entry]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colours = {"holds": "green", "deviated": "red", "failed": "yellow", "void": "yellow"}
    table = Table(box=None, pad_edge=False)
    for name in ("run", "verdict", "testbed", "arms", "build", "tags"):
        table.add_column(name, overflow="fold" if name == "arms" else "ellipsis", no_wrap=name in ("run", "verdict"))
    for run in found:
        words = (run.bed, " ".join(run.arms), run.build_id[:8], " ".join(run.tags))
        verdict = Text(run.verdict, style=colours.get(run.verdict, "dim"))
        table.add_row(Text(run.id), verdict, *map(Text, words))
    Console(highlight=False, width=None if sys.stdout.isatty() else 200).print(table)


@runs.command()
@click.argument("run")
@store_option
@json_option()
@quiet_option(given=False)
def show(run: str, store: Path, as_json: bool) -> None:
    """Show what came of RUN: an id, the beginning of one, a tag that only one run has, or a run directory.

    \b
    Examples:
      r2cc runs show 20261125T0339
      r2cc runs show before-update --json
    """
    from reports.store.entry import RunShown
    from reports.store.store import opened

    with opened(store) as found:
        entry = found.find(run)
    if as_json:
        click.echo(dumped(RunShown(entry.shown(), entry.figures)))
        return
    for name, value in vars(entry.shown()).items():
        text = " ".join(value) if isinstance(value, tuple) else value
        click.echo(f"{name:<12} {'-' if text in (None, '') else text}")
    click.echo(f"{'directory':<12} {store / entry.id}")
    for figure in entry.figures:
        click.echo(f"  {_line(figure)}")


def _line(figure: Figure) -> str:
    repeat = "" if figure.repeat < 0 else f" run {figure.repeat}"
    size = "" if figure.size_bytes is None else f" of {figure.size_bytes} bytes"
    bound = "" if figure.bound is None else f" (bound {figure.bound:g})"
    part = ", of a part alone: it was interrupted" if figure.cut else ""
    return f"{figure.arm}{repeat}: {figure.name}{size} {figure.value:g} {figure.unit}{bound}{part}"


@runs.command()
@click.argument("run")
@click.argument("tags", nargs=-1, required=True, metavar="TAG...")
@click.option("--remove", is_flag=True, help="Take the tags away.")
@store_option
@json_option()
@quiet_option(given=False)
def tag(run: str, tags: tuple[str, ...], *, remove: bool, store: Path, as_json: bool) -> None:
    """Give RUN tags. What has a tag is never pruned.

    \b
    Examples:
      r2cc runs tag 20261125T0339 before-update
      r2cc runs tag before-update before-update --remove
    """
    from harness.errors import UsageError
    from reports.store.entry import RunShown
    from reports.store.store import opened

    wrong = [word for word in tags if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,63}", word)]
    if wrong:
        raise UsageError(f"'{wrong[0]}' is no tag", "letters, digits and ._/- make one")
    with opened(store) as found:
        entry = found.tag(run, () if remove else tags, tags if remove else ())
    if as_json:
        click.echo(dumped(RunShown(entry.shown())))
    else:
        click.echo(f"{entry.id}: {' '.join(entry.tags) or 'no tag'}")


@runs.command()
@click.option("--keep", type=click.IntRange(0), help="Keep this many of the newest runs of each experiment.")
@click.option("--older-than", callback=age, metavar="AGE", help="Remove only runs that are older: 12h, 30d, 8w.")
@click.option("--dry-run", is_flag=True, help="Name the runs; remove nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before removing.")
@store_option
@json_option()
@quiet_option(given=False)
def prune(
    *, keep: int | None, older_than: timedelta | None, dry_run: bool, yes: bool, store: Path, as_json: bool
) -> None:
    """Remove old run directories. Those with a tag stay, and those that may still be running.

    \b
    Examples:
      r2cc runs prune --keep 20 --dry-run
      r2cc runs prune --older-than 30d --yes
    """
    from harness.errors import UsageError
    from reports.store import prune as pruning
    from reports.store.store import opened

    if keep is None and older_than is None:
        raise UsageError("prune needs --keep or --older-than", "r2cc runs prune --keep 20 --dry-run")
    with opened(store) as found:
        chosen = pruning.chosen(found.runs(), datetime.now(UTC), keep=keep, older_than=older_than)
        warn(found.unreadable())
        if as_json:
            click.echo(dumped(pruning.Pruned(dry_run, [run.id for run in chosen])))
        for run in () if as_json else chosen:
            click.echo(run.id)
        if dry_run or not chosen:
            click.echo(f"{len(chosen)} run(s) would be removed; nothing was", err=True)
            return
        if not yes:
            click.confirm(f"remove these {len(chosen)} run(s)?", abort=True, err=True)
        removed_runs = _remove(store, chosen)
        found.refresh()
    click.echo(f"{removed_runs} run(s) removed", err=True)


def _remove(store: Path, chosen: Sequence[Entry]) -> int:
    """How many were. One that cannot be removed keeps no other; InfraError with all of them at the end."""
    from harness.errors import InfraError
    from reports.store import prune as pruning

    pruning.sweep(store)
    errors = []
    for run in chosen:
        try:
            pruning.remove(store, run)
        except InfraError as error:
            errors.append(error.message)
    if errors:
        hint = f"{len(chosen) - len(errors)} others were removed; check who owns these folders"
        raise InfraError("\n".join(errors), hint)
    return len(chosen)


@runs.command(name="import")
@click.argument("files", nargs=-1, required=True, type=FilePath(), metavar="FILE...")
@click.option("--name", required=True, help="The name of the experiment that they are runs of.")
@click.option(
    "--kind",
    type=click.Choice(["nccl-tests", "megatron"]),
    help="Which program wrote the files. Without it: found from their text.",
)
@click.option("--arm", default="stock", help="The arm that they count as.")
@click.option(
    "--hardware",
    default="",
    show_default=False,
    metavar="WORD",
    help="A word for where they ran. Only runs with the same word are compared.",
)
@click.option(
    "--build", "build_id", default="", show_default=False, metavar="ID", help="The build of NCCL that they used."
)
@click.option(
    "--degraded",
    type=FilePath(),
    metavar="FILE",
    help="What nccl-tests measured while NICs were missing. With one FILE it makes one run, whose report shows both.",
)
@click.option(
    "--left",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="With --degraded: the share of the bandwidth that was left.",
)
@store_option
@json_option()
@quiet_option(given=False)
def import_(
    files: tuple[Path, ...],
    *,
    name: str,
    kind: str | None,
    degraded: Path | None,
    left: float | None,
    store: Path,
    as_json: bool,
    **about: str,
) -> None:
    """Add figures of nccl-tests (JSON or text) or Megatron-LM's logs to the store, as runs.

    What a launcher, a container tool or a terminal puts before the lines does no harm. A file with several measurements
    (tests, operations, processes, trainings) becomes a run for each: NAME and a word for what differs.

    \b
    Examples:
      r2cc runs import all_reduce-*.json --name all_reduce --hardware h100x8
      r2cc runs import slurm-4711.out --name nightly --hardware h100x8
      r2cc runs import whole.json --degraded one-nic-less.json --left 0.875 --name all_reduce
    """
    from harness.errors import UsageError
    from reports.store.imports import About, Degraded, Made, bring_in

    if left is not None and degraded is None:
        raise UsageError("--left says what is left in a degraded measurement", "name that with --degraded FILE")
    notes = list[str]()
    measured_less = Degraded(degraded, left) if degraded else None
    made = bring_in(store, files, About(name, **about), kind, measured_less, tell=notes.append)
    for note in notes:
        click.echo(note, err=True)
    if as_json:
        click.echo(dumped(Made([folder.name for folder in made], notes)))
    for folder in () if as_json else made:
        click.echo(folder)


TABLES = ("iterations", "samples", "gpus", "faults", "summary")


@runs.command()
@click.argument("names", nargs=-1, metavar="[RUN]...")
@click.option("--format", "form", type=click.Choice(["csv", "parquet"]), default="csv", help="Of the files.")
@click.option("--table", "tables", type=click.Choice(TABLES), multiple=True, help="Only this table; may be repeated.")
@click.option("--out", type=OutFolder(), required=True, help="Folder for the files.")
@store_option
@json_option()
@quiet_option(given=False)
def export(
    names: tuple[str, ...], *, form: str, tables: tuple[str, ...], out: Path, store: Path, as_json: bool
) -> None:
    """Write the tables of RUNs, or of all runs of the store, as files: OUT/<run>/<table>.csv.

    RUN is an id, the beginning of one, a tag, or a run directory. docs/howto/python.md says what is in the tables.

    \b
    Examples:
      r2cc runs export 20261125T0339 --out tables
      r2cc runs export --format parquet --table summary --table faults --out tables
    """
    from reports.frames import export as tables_of
    from reports.reading.rundir import load
    from reports.store.names import id_of

    tables_of.check(form)
    written: list[Path] = []
    for folder in _folders(store, names):
        run = load(folder)
        files = tables_of.write(run, id_of(folder.resolve().name), tables or TABLES, form, out)
        written += files
        for path in () if as_json else files:
            click.echo(path)
    if as_json:
        click.echo(dumped(tables_of.Exported([str(path) for path in written])))


def _folders(store: Path, names: Sequence[str]) -> list[Path]:
    """The directories of these runs; of all that are experiments and can be read, without a name."""
    from reports.store.entry import UNREADABLE
    from reports.store.folders import is_run, is_simulated
    from reports.store.store import opened

    paths = {name: Path(name) for name in names if is_run(Path(name))}
    others = [name for name in names if name not in paths]
    if others or not names:
        with opened(store) as found:
            paths |= {name: store / found.find(name).folder for name in others}
            if not names:
                every = [store / run.folder for run in found.runs() if run.verdict != UNREADABLE]
                warn(found.unreadable())
                return [path for path in every if not is_simulated(path)]
    return [paths[name] for name in names]
