"""`r2cc doctor`: whether hosts are fit for a run, what is wrong with them, and what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from harness.commands.options import json_option, quiet_option
from harness.commands.site_option import PLACES, site_option
from harness.commands.waiting import waiting
from harness.errors import InfraError, UsageError
from harness.schemas import dumped

if TYPE_CHECKING:
    from harness.doctor.examination import Examined, Ward
    from harness.doctor.model import Check
    from harness.facts.collect import Collected
    from harness.hosts.parallel import Outcome
    from harness.sites.site import Site

    Told = Callable[[Outcome[Collected]], None]

BREAKS = 1
EXAMPLES = """\b
Examples:
  r2cc doctor --inventory cluster.yaml
  r2cc doctor --inventory cluster.yaml --host node[01-16] --check clock,path-mtu
  r2cc doctor --inventory local --check nccl-path    which NCCL and net plugin a job here would load
  r2cc doctor --inventory local --pid 4711           which ones that process really uses
  r2cc doctor --backups                        NICs whose loss would stop a run"""


@click.command(epilog=EXAMPLES)
@site_option(default="lab", local=True, metavar=f"{PLACES}|local")
@click.option("--host", "hosts", metavar="RANGE", help="Examine only these hosts, for example node[01-16,20].")
@click.option("--check", "checks", metavar="ID,...", help="Make only these checks (all: docs/reference/doctor.md).")
@click.option("--pid", type=click.IntRange(min=1), help="Look at the NCCL that this process has mapped.")
@click.option("--backups", is_flag=True, help="Only list the NICs that have no backup.")
@json_option("Print JSON (harness/schemas/doctor.schema.json).")
@quiet_option("Print no progress, only the findings.")
def doctor(  # noqa: PLR0917 - click gives them by name
    site: Site, hosts: str | None, checks: str | None, pid: int | None, backups: bool, as_json: bool, quiet: bool
) -> int:
    """Examine hosts: NICs, RDMA, GPUs, paths between them, clocks, limits. Changes nothing on them.

    Exit codes: 0 nothing would break a run, 1 something would, 2 bad usage (also a --pid that is on no host), 3 a host
    could not be examined. What the others have is shown then.
    """
    from harness.doctor.examination import only, open_ward

    asked = _checks(checks, pid, backups)
    names = _names(hosts)
    with open_ward(site) as opened:
        return _examine(only(opened, names), str(site), asked, pid, as_json=as_json, quiet=quiet)


def _checks(text: str | None, pid: int | None, backups: bool) -> tuple[Check, ...]:
    from harness.doctor.registry import chosen

    ids = [part.strip() for part in (text or "").split(",") if part.strip()]
    if backups and ids:
        raise UsageError("--backups is one check by itself", "leave out --check or --backups")
    found = chosen(["backup"] if backups else ids)
    if pid is None and any(check.on_demand for check in found) and ids:
        raise UsageError("nccl-mapped looks at a process", "name it with --pid")
    return found


def _names(text: str | None) -> list[str]:
    from harness.sites.ranges import expand

    try:
        return expand(text) if text else []
    except ValueError as error:
        raise UsageError(f"--host: {error}", "write it as node[01-16,20]") from error


def _examine(
    ward: Ward, inventory: str, checks: tuple[Check, ...], pid: int | None, *, as_json: bool, quiet: bool
) -> int:
    from harness.doctor import render
    from harness.doctor.engine import examine, grouped_failures
    from harness.doctor.examination import examined

    with _telling(ward, as_json or quiet) as told:
        tries, sends = any(check.tries_paths for check in checks), any(check.sends for check in checks)
        found = examined(ward, pid=pid, tries_paths=tries, sends=sends, told=told)
    if pid is not None:
        _require_process(found, pid)
    report = grouped_failures(examine(found.fleet, checks), found.failed)
    if as_json:
        click.echo(dumped(render.whole(report, found, inventory)))
    else:
        for text, colour in render.lines(report, found, inventory):
            click.echo(click.style(text, dim=True) if colour == "dim" else click.style(text, fg=colour))
    if found.failed:
        return InfraError.exit_code
    return BREAKS if report.breaks else 0


def _require_process(found: Examined, pid: int) -> None:
    """On one host at least: else the answer would be silence."""
    from harness.facts import catalogue

    why = [patient.known.why(catalogue.MAPPED) for patient in found.fleet.patients]
    if why and all(why):
        hint = "see `ps` on the host; another user's process needs root"
        kind = InfraError if found.failed else UsageError  # it may be on a host that did not answer
        raise kind(f"no process {pid} that can be looked at: {why[0]}", hint)


@contextmanager
def _telling(ward: Ward, quiet: bool) -> Iterator[Told]:
    """On a terminal a few lines that are redrawn; elsewhere a line a host; nothing beside JSON."""
    if quiet:
        yield lambda _outcome: None
    elif sys.stdout.isatty():
        with waiting(ward.hosts, "they try their ways to each other") as told:
            yield told
    else:
        yield lambda outcome: click.echo(_line(outcome), err=True)


def _line(outcome: Outcome[Collected]) -> str:
    return f"{outcome.host} {'examined' if outcome.error is None else 'FAILED'} ({outcome.elapsed_s:.1f} s)"
