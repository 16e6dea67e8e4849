"""`r2cc chaos`: run experiments, check their files, list faults. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chaos.commands.campaign import campaign
from chaos.commands.faults import faults
from chaos.commands.soak import soak
from harness.commands.site_option import site_option
from harness.schemas import dumped

if TYPE_CHECKING:
    from chaos.experiment.model import Experiment
    from harness.sites.site import Site

EXAMPLES = """\b
Examples:
  r2cc chaos run experiments/nic_down.yaml
  r2cc chaos run experiments/nic_down.yaml --arms stock,migrate --repeats 3
  r2cc chaos run experiments/flap.yaml --dry-run
  r2cc chaos run experiments/false_positives
  r2cc chaos run experiments/ib/black_hole.yaml --inventory vm:2x2
  r2cc chaos run experiments/black_hole.yaml --json > summary.json

\b
Exit codes: 0 every arm did as expected, 1 one deviated, 2 bad usage or input (nothing was started),
3 the infrastructure failed, the fault missed or the figures are void (run again), 130 interrupted and rolled back.
"""


LAUNCHERS = ("direct", "ssh", "mpirun", "srun", "torchrun")


@click.group()
def chaos() -> None:
    """Break NICs and links on purpose while collectives run, and judge what happens.

    \b
    Examples:
      r2cc chaos run experiments/nic_down.yaml
      r2cc chaos validate experiments/*.yaml
      r2cc chaos faults
    """


chaos.add_command(soak)
chaos.add_command(campaign)
chaos.add_command(faults)


@chaos.command(epilog=EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path))
@site_option(
    default="lab",
    metavar="lab|lab:FILE|vm:2x2|FILE",
    text="Where to run; `lab` builds the experiment's own topology, `vm` emulated guests with soft-RoCE; FILE: hosts.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Where the run directory is made.",
)
@click.option(
    "--launcher",
    type=click.Choice(LAUNCHERS),
    default="direct",
    show_default=True,
    help="What starts the ranks on hosts over SSH; direct and ssh: we do, over our own connections.",
)
@click.option("--arms", metavar="A,B", help="Run only these arms of the experiment.")
@click.option("--repeats", type=click.IntRange(1, 1000), help="Run every arm so often, interleaved.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Seed of the workload's data.")
@click.option("--dry-run", is_flag=True, help="Print what would run on which host; start nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print summary.json alone on stdout; progress goes to stderr.")
@click.option(
    "--void-ok",
    is_flag=True,
    help="Exit 0 when the machine was too busy to measure, if all that could be judged is as expected.",
)
@click.option("--trace", is_flag=True, help="Keep flight-recorder dumps of all ranks under raw/ (see `r2cc trace`).")
@click.option("--python", metavar="PATH", envvar="R2CC_PYTHON", help="Has torch, for workloads on GPUs (python3).")
@click.option("--share-gpus", is_flag=True, envvar="R2CC_SHARE_GPUS", help="More ranks than GPUs (CUDA's MPS).")
@click.option("--quiet", is_flag=True, help="No progress; one line on stderr for what was not as expected.")
@click.option("--verbose", is_flag=True, help="Plain progress lines, also on a terminal.")
def run(
    *,
    file: Path,
    site: Site,
    out: Path,
    launcher: str,
    arms: str | None,
    repeats: int | None,
    seed: int | None,
    dry_run: bool,
    as_json: bool,
    void_ok: bool,
    trace: bool,
    python: str | None,
    share_gpus: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Run the experiment in FILE; the run directory's path is the last line printed.

    A folder means every experiment in it, one after the other; the exit code is that of the worst.
    """
    from chaos.run.suite import experiments
    from harness.files import rundir

    options: dict[str, Any] = {"out": out, "void_ok": void_ok, "trace": trace, "quiet": quiet, "verbose": verbose}
    options |= {"python": python, "share_gpus": share_gpus, "launcher": launcher}
    wanted = [_adjusted(experiment, repeats, seed) for experiment in experiments(file)]
    chosen = [_arms(experiment, arms) for experiment in wanted]
    if dry_run:
        return _dry_run(wanted, chosen, site, python, launcher=launcher, as_json=as_json)
    rundir.check(out)
    if file.is_dir():
        return _suite(wanted, chosen, site, as_json=as_json, options=options)
    summary, shown = _run(wanted[0], chosen[0], site, as_json=as_json, **options)
    _last_words(summary, shown, as_json=as_json, quiet=quiet)
    return int(summary["exit_code"])


def _suite(
    wanted: list[Experiment], arms: list[list[str]], site: Site, *, as_json: bool, options: dict[str, Any]
) -> int:
    from chaos.run import suite
    from chaos.testbed.beds import check

    chosen = {id(experiment): names for experiment, names in zip(wanted, arms, strict=True)}
    for experiment in wanted:
        check(site, experiment)

    def run_one(experiment: Experiment) -> suite.Outcome:
        summary, shown = _run(experiment, chosen[id(experiment)], site, as_json=as_json, **options)
        return suite.Outcome(experiment.name, summary["verdict"], summary["exit_code"], shown, summary["reasons"])

    outcomes = suite.run_all(wanted, run_one, lambda line: None if options["quiet"] else click.echo(line, err=as_json))
    click.echo(dumped("suite", suite.as_json(outcomes), 1) if as_json else suite.table(outcomes))
    return suite.exit_code(outcomes)


def _adjusted(experiment: Experiment, repeats: int | None, seed: int | None) -> Experiment:
    changes = {"repeats": repeats, "seed": seed}
    return experiment.model_copy(update={key: value for key, value in changes.items() if value is not None})


def _arms(experiment: Experiment, names: str | None) -> list[str]:
    """The arms asked for, in the order asked for; UsageError for one that the experiment does not have."""
    from harness.errors import UsageError

    known: list[str] = list(experiment.arms)
    if names is None:
        return known
    chosen = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    unknown = [name for name in chosen if name not in known]
    if unknown or not chosen:
        raise UsageError(
            f"--arms: {experiment.name} has no arm {', '.join(map(repr, unknown)) or repr(names)}",
            f"it has {', '.join(known)}",
        )
    return chosen


def _run(
    experiment: Experiment,
    arms: list[str],
    site: Site,
    *,
    out: Path,
    as_json: bool,
    void_ok: bool,
    trace: bool,
    quiet: bool,
    verbose: bool,
    python: str | None = None,
    share_gpus: bool = False,
    launcher: str = "direct",
) -> tuple[dict[str, Any], str]:
    """(summary, run directory as one would type it)."""
    from chaos.record import live
    from chaos.run import runner
    from chaos.testbed import fitting
    from chaos.testbed.beds import bed_hardware, check, check_launcher, open_bed
    from chaos.testbed.workbench import bench_for
    from harness.files import rundir
    from harness.plugins import after_run

    check(site, experiment)
    check_launcher(site, experiment, launcher)
    stream = sys.stderr if as_json else sys.stdout
    with bench_for(experiment, site, python, share=share_gpus, quiet=quiet) as (bench, build):
        if site.adopts_topology and fitting.names_no_rate(experiment):
            say = partial(click.echo, err=as_json)
            experiment = fitting.fitted(experiment, arms, bench, (lambda _: None) if quiet else say)
        directory = rundir.create(out, experiment.name)
        display = live.display(stream, quiet=quiet, plain=verbose, faults=experiment.faults)
        how: dict[str, Any] = {"void_ok": void_ok, "trace": trace, "hardware": bed_hardware(site)}
        how |= {"bed": site.bed, "launcher": launcher}
        request = runner.Request(arms, bench, build, lambda: open_bed(site, experiment), **how)
        summary = runner.run(experiment, request, directory, display)
    try:
        after_run(directory.path, quiet=quiet or as_json)
    except BaseException:
        _last_words(summary, directory.shown(), as_json=as_json, quiet=quiet)
        raise
    return summary, directory.shown()


def _last_words(summary: dict[str, Any], shown: str, *, as_json: bool, quiet: bool) -> None:
    """The verdict, then the run directory's path as the very last line (or summary.json alone).

    Reasons are the report's to show; without one (`--json`), and when there was nothing to report, they are said here.
    With `quiet`, what is not as expected has its reasons in one line on standard error: a script keeps nothing else.
    """
    if not quiet:
        click.echo(f"verdict: {summary['verdict']} (exit code {summary['exit_code']})", err=as_json)
        for reason in summary["reasons"] if as_json or summary["verdict"] == "failed" else ():
            click.echo(f"  {reason}", err=as_json)
    elif summary["exit_code"]:
        click.echo(f"r2cc: {summary['verdict']}: {'; '.join(summary['reasons']) or 'no reason is known'}", err=True)
    if as_json:
        click.echo(dumped("summary", summary, 1))
    click.echo(shown, err=as_json)


def _dry_run(
    wanted: list[Experiment], arms: list[list[str]], site: Site, python: str | None, *, launcher: str, as_json: bool
) -> int:
    from chaos.run.dryrun import as_json as plan
    from chaos.run.dryrun import text
    from chaos.testbed.fitting import names_no_rate

    found = [_steps(each, names, site, python, launcher) for each, names in zip(wanted, arms, strict=True)]
    if as_json:
        click.echo(dumped("run_plan", plan(wanted, found), 1))
    else:
        fits = [site.adopts_topology and names_no_rate(experiment) for experiment in wanted]
        click.echo("\n\n".join(map(text, wanted, found, fits)))
    return 0


def _steps(
    experiment: Experiment, arms: list[str], site: Site, python: str | None, launcher: str
) -> list[dict[str, Any]]:
    from chaos.run.dryrun import steps
    from chaos.testbed.beds import check_launcher, gpus_of, planned_bed, targets_of
    from chaos.testbed.workbench import planned_for

    bed = planned_bed(site, experiment)
    check_launcher(site, experiment, launcher)
    return steps(
        experiment,
        arms,
        bed=bed,
        bench=planned_for(experiment, site, python),
        gpus=gpus_of(site, experiment),
        of_host=site.env(experiment.workload.net),
        launcher=launcher,
        targets=targets_of(site),
    )


@chaos.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print what each file holds, or its errors, as JSON.")
def validate(files: tuple[Path, ...], as_json: bool) -> int:
    """Check experiment FILES; every error of every file is listed, with its line. A folder means every file in it.

    \b
    Examples:
      r2cc chaos validate experiments/*.yaml
      r2cc chaos validate experiments/false_positives
      r2cc chaos validate experiments/*.yaml --json
    """
    from chaos.run.suite import files_of
    from harness.errors import InputErrors

    checked = [_checked(each) for file in files for each in files_of(file)]
    errors = [error for each in checked for error in each["errors"]]
    if as_json:
        click.echo(dumped("validated", {"schema": 1, "files": checked}))
        return InputErrors.exit_code if errors else 0
    for each in checked:
        if not each["errors"]:
            told = f"{each['name']}: {each['faults']} fault(s), arms {', '.join(each['arms'])}"
            click.echo(f"{each['file']}: ok ({told})")
    if errors:
        raise InputErrors(errors)
    return 0


def _checked(file: Path) -> dict[str, Any]:
    from chaos.experiment.file import load
    from harness.errors import InputErrors, UsageError

    found: dict[str, Any] = {"file": str(file), "errors": []}
    try:
        experiment = load(file)
    except InputErrors as error:
        return {**found, "errors": error.errors}
    except UsageError as error:
        return {**found, "errors": [str(error)]}
    return {**found, "name": experiment.name, "faults": len(experiment.faults), "arms": list(experiment.arms)}
