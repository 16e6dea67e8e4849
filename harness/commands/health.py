"""`r2cc health`: whether this host's network is whole, carried by R2CC, held or lost."""

from __future__ import annotations

import socket
from pathlib import Path

import click

from harness.commands.options import json_option
from harness.commands.watched import folder_of, status_option
from harness.errors import UsageError
from harness.schemas import dumped

EXAMPLES = """\b
Examples:
  r2cc health --status /run/r2cc-status
  r2cc health --status /run/r2cc-status --json
  r2cc health --status /run/r2cc-status --for slurm        for a HealthCheckProgram
  r2cc health --status /run/r2cc-status --for condition    a patch of a Kubernetes node

\b
Exit codes: 0 healthy, or unknown, 1 a NIC failed and R2CC carries its work, 2 bad usage, 4 connections have no path and
are held, 5 some are lost. Unknown: no status file could be read. With --for: 0 no problem, 1 a problem (slurm, npd).
"""
AGENTS = ("slurm", "npd", "condition", "nvsentinel", "nvrx")


@click.command(epilog=EXAMPLES)
@status_option
@click.option("--host", metavar="NAME", help="Only processes of this host, where several write into one folder.")
@click.option("--for", "agent", type=click.Choice(AGENTS), help="Print what this agent reads.")
@click.option(
    "--problem", type=click.Choice(("carried", "held", "lost")), default="held",
    help="With --for: from which verdict on it is a problem.",
)  # fmt: skip
@json_option("Print JSON (harness/schemas/health.schema.json).")
def health(*, status: Path | None, host: str | None, agent: str | None, problem: str, as_json: bool) -> int:
    """Say how a host's network is, by what the R2CC processes on it write (R2CC_STATUS_DIR).

    A health agent asks this before it drains a node whose port is down: R2CC may have saved the job.
    """
    from harness.watch.agents import rendered
    from harness.watch.health import EXIT_CODES, judged
    from harness.watch.status import read_folder

    if agent and as_json:
        raise UsageError("--json and --for are two forms of the same", "leave one out")
    found = judged(read_folder(folder_of(status), host))
    for line in found.problems:
        if line == found.message and not agent and not as_json:
            continue  # it is the verdict
        click.echo(f"r2cc: {line}", err=True)
    if agent:
        text, code = rendered(found, agent, host or socket.gethostname(), problem)
        click.echo(text)
        return code
    click.echo(dumped(found) if as_json else f"{found.verdict}: {found.message}")
    return EXIT_CODES[found.verdict]
