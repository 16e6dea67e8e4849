"""One experiment run from the command line: `r2cc chaos run`, and each cell of a campaign."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.schemas import dumped

if TYPE_CHECKING:
    from chaos.analysis.model import Summary
    from chaos.experiment.model import Experiment
    from harness.sites.site import Site


def run_one(
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
    nccl: str | None = None,
) -> tuple[Summary, str]:
    """(summary, run directory as one would type it)."""
    from chaos.record import live
    from chaos.run import fitting, runner
    from chaos.testbed.beds import bed_hardware, check, check_launcher, launcher_of, open_bed
    from chaos.testbed.programs import check_programs
    from chaos.testbed.workbench import bench_for
    from harness.files import rundir
    from harness.plugins import after_run

    launcher = launcher_of(experiment, launcher)
    check(site, experiment)
    check_launcher(site, experiment, launcher)
    check_programs(site, experiment)
    stream = sys.stderr if as_json else sys.stdout
    with bench_for(experiment, site, python, share=share_gpus, quiet=quiet, version=nccl) as (bench, build):
        if site.adopts_topology and fitting.names_no_rate(experiment):
            say = partial(click.echo, err=as_json)
            experiment = fitting.fitted(experiment, arms, bench, (lambda _: None) if quiet else say)
        directory = rundir.create(out, experiment.name)
        display = live.display(stream, quiet=quiet, plain=verbose, faults=experiment.faults)
        how: dict[str, Any] = {"void_ok": void_ok, "trace": trace, "hardware": bed_hardware(site)}
        how |= {"bed": site.bed, "launcher": launcher, **({"python": python} if python else {})}
        request = runner.Request(arms, bench, build, lambda: open_bed(site, experiment), **how)
        summary = runner.run(experiment, request, directory, display)
    try:
        after_run(directory.path, quiet=quiet or as_json)
    except BaseException:
        last_words(summary, directory.shown(), as_json=as_json, quiet=quiet)
        raise
    return summary, directory.shown()


def last_words(summary: Summary, shown: str, *, as_json: bool, quiet: bool) -> None:
    """The verdict, then the run directory's path as the very last line (or summary.json alone).

    Reasons are the report's to show; without one (`--json`), and when there was nothing to report, they are said here.
    With `quiet`, what is not as expected has its reasons in one line on standard error: a script keeps nothing else.
    """
    if not quiet:
        click.echo(f"verdict: {summary.verdict} (exit code {summary.exit_code})", err=as_json)
        for reason in summary.reasons if as_json or summary.verdict == "failed" else ():
            click.echo(f"  {reason}", err=as_json)
    elif summary.exit_code:
        click.echo(f"r2cc: {summary.verdict}: {'; '.join(summary.reasons) or 'no reason is known'}", err=True)
    if as_json:
        click.echo(dumped(summary, 1))
    click.echo(shown, err=as_json)
