"""`r2cc job-report`: what happened to a job, at its end. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.commands.options import FilePath, json_option
from harness.commands.watched import folder_of, status_option
from harness.errors import UsageError
from harness.schemas import dumped

if TYPE_CHECKING:
    from harness.watch.job import JobReport

EXAMPLES = """\b
Examples:
  r2cc job-report --status /run/r2cc-status --job 4711 --gpus 64
  r2cc job-report --status /run/r2cc-status --into /shared/r2cc --restart-minutes 25    in Slurm's epilog
  r2cc job-report --status /shared/r2cc/4711 --gpus 64 --markdown

\b
Exit codes: 0 reported, also where nothing happened; 2 bad usage, or a folder that cannot be written.
"""
JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@click.command("job-report", epilog=EXAMPLES)
@status_option
@click.option("--job", metavar="ID", help="Which job; without it SLURM_JOB_ID says it, else all are one.")
@click.option(
    "--into", type=FilePath(exists=True, file_okay=False), metavar="DIR",
    help="Move the job's files there, to DIR/ID, and report of all there. DIR exists, and all hosts share it.",
)  # fmt: skip
@click.option(
    "--restart-minutes", type=click.FloatRange(0, 1e6), default=20.0, show_default=True,
    help="What one restart of such a job costs here, from the failure until it computes again.",
)  # fmt: skip
@click.option("--gpus", type=click.IntRange(1), help="How many the job has; Slurm's variables say it where they can.")
@click.option("--markdown", is_flag=True, help="Print the report as Markdown.")
@json_option("Print JSON (harness/schemas/job_report.schema.json).")
def job_report(
    *, status: Path | None, job: str | None, into: Path | None, restart_minutes: float, gpus: int | None,
    markdown: bool, as_json: bool,
) -> int:  # fmt: skip
    """Say at a job's end what failed, what R2CC carried, and the GPU hours that this saved.

    It reads the files that the job's processes left (R2CC_STATUS_DIR). A process to which nothing happened leaves none.
    """
    from harness.files.lock import exclusive
    from harness.files.writing import write_whole
    from harness.watch.job import judged, kept, of_job
    from harness.watch.job_text import markdown as as_markdown
    from harness.watch.job_text import text

    if markdown and as_json:
        raise UsageError("--markdown and --json are two forms of the same", "leave one out")
    name = job if job is not None else os.environ.get("SLURM_JOB_ID", "")
    if (into or name) and not JOB.fullmatch(name):
        raise UsageError(f"--job {name!r} cannot be the name of a job", "letters, digits, '.', '_' and '-'")
    folder = folder_of(status)
    known = gpus if gpus is not None else gpus_of_slurm(os.environ)

    def made(place: Path) -> JobReport:
        found = of_job(place, name)
        return judged(name, [*found.live, *found.ended], restart_minutes, known, found.problems)

    if into is not None:
        kept(folder, name, into / name)
    if into is None or not (into / name).is_dir():
        report = made(folder)
    else:
        with exclusive(into / name / ".lock", "reporting"):  # the last of all hosts writes what all of them kept
            report = made(into / name)
            write_whole(into / name / "report.md", as_markdown(report) + "\n")
    for line in report.problems:
        click.echo(f"r2cc: {line}", err=True)
    click.echo(dumped(report) if as_json else as_markdown(report) if markdown else text(report))
    return 0


def gpus_of_slurm(environment: Mapping[str, str]) -> int | None:
    """Of the whole job, by Slurm's variables in a job or in its epilog; None: they do not say."""
    from harness.sites.ranges import expand
    from harness.sites.slurm import gpus_of_job, gpus_of_node

    if every := gpus_of_job(environment):
        return every
    nodes = environment.get("SLURM_JOB_NODELIST") or environment.get("SLURM_NODELIST", "")
    try:
        count = len(expand(nodes)) if nodes else 0
    except ValueError:
        return None
    each = gpus_of_node(environment, count)
    return each * count if each and count else None
