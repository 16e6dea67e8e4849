"""`r2cc panic`: everything undone that is armed anywhere. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from harness.commands.options import json_option
from harness.commands.site_option import site_option
from harness.schemas import dumped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from chaos.deadman.panic import Report
    from harness.hosts import Host
    from harness.sites.site import Site

EXAMPLES = """\b
Examples:
  r2cc panic --inventory cluster.yaml
  r2cc panic --inventory cluster.yaml --dry-run
  r2cc panic --inventory cluster.yaml --host node[03-04] --json
  r2cc panic --inventory local                # on the host itself, at its console

\b
Exit codes: 0 nothing of ours is left, 1 something could not be undone, 2 bad usage, 3 a host could not be reached.
What is armed on such a host, its own timer undoes. 3 is also a host that is wrong in the inventory. With --dry-run, 1
means that something is there.
"""


@click.command(epilog=EXAMPLES)
@site_option(required=True, local=True, metavar="FILE|FILE:HOSTS|local", text="Which hosts; local: this machine.")
@click.option("--host", metavar="RANGE", help="Only these hosts of the inventory, for example node[1-4].")
@click.option("--dry-run", is_flag=True, help="Show what is armed and left; change nothing.")
@click.option("--break-lease", is_flag=True, help="Take the hosts away from the controller that holds them, too.")
@json_option()
def panic(*, site: Site, host: str | None, dry_run: bool, break_lease: bool, as_json: bool) -> int:
    """Undo everything that is broken on purpose, on all hosts at once, from any machine; also while a run goes on.

    Runs every armed undo, proves each by the fault's own probe, ends its timer, and removes nft tables and queueing
    disciplines of ours that no record knows. A host that cannot be reached hides nothing of the others.
    """
    from chaos.deadman.panic import exit_code
    from chaos.deadman.panic import panic as undo_all

    heard = (lambda line: None) if as_json else click.echo
    with _open(site, host) as hosts:
        reports = undo_all(hosts, dry_run=dry_run, break_lease=break_lease, told=heard)
    code = exit_code(reports, dry_run=dry_run)
    if as_json:
        from chaos.deadman.shown import Panic, ShownHost

        click.echo(dumped(Panic(str(site), dry_run, code, [ShownHost.of(report) for report in reports])))
        return code
    for report in reports:
        for line in _lines(report, dry_run=dry_run):
            click.echo(line)
    clean = sum(1 for report in reports if report.clean)
    click.echo(f"{clean} of {len(reports)} hosts {'asked' if dry_run else 'clean'}")
    return code


@contextmanager
def _open(site: Site, host: str | None) -> Iterator[Mapping[str, Host]]:
    """All that are wanted, also those of which the inventory says something wrong."""
    from harness.hosts import LocalHost
    from harness.hosts.unusable import UnusableHost
    from harness.sites.cluster import of_a_file, reached
    from harness.sites.local import LocalSite

    if isinstance(site, LocalSite):
        yield {"local": LocalHost("local")}
        return
    hint = "name the hosts' file, or `local` for this machine"
    found, wrong = of_a_file(site, "a lab's faults end with the lab", hint).usable()
    wanted = _wanted(site, host, {*wrong, *(each.name for each in found)})
    with reached([each for each in found if each.name in wanted], to_break=True) as hosts:
        yield {**hosts, **{name: UnusableHost(name, error) for name, error in wrong.items() if name in wanted}}


def _wanted(site: Site, words: str | None, known: set[str]) -> set[str]:
    from harness.errors import UsageError
    from harness.sites.ranges import expand

    try:
        wanted = known if words is None else {*expand(words)}
    except ValueError as error:
        raise UsageError(f"--host {words}: {error}", "write node[1-4]") from error
    if unknown := sorted(wanted - known):
        raise UsageError(f"no host {', '.join(unknown)}", f"r2cc hosts list --inventory {site}")
    return wanted


def _lines(report: Report, *, dry_run: bool) -> Iterator[str]:
    """What is to be read of one host at the end."""
    from chaos.deadman.switch import what_of

    if report.error is not None:
        why = str(report.error).removeprefix(f"{report.host}: ")
        yield f"{report.host}  {'FAILED' if report.reached else 'NOT REACHED'}  {why}"
    for record in report.records:
        found = record.found
        what = f"{what_of(found)} ({found.id}, armed by {found.about.get('controller', '?')})"
        if dry_run:
            left = f", {found.left_s:.0f} s left" if found.state == "armed" else ""
            yield f"{report.host}  {found.state}{left}  {what}"
        else:
            yield f"{report.host}  {'FAILED' if record.problem else 'undone'}  {what}: {record.problem or record.proof}"
    for left in report.removed:
        yield f"{report.host}  {'left over' if dry_run else 'removed'}  {left}"
    for problem in report.problems:
        yield f"{report.host}  FAILED  {problem}"
    if report.clean and not report.records and not report.removed:
        yield f"{report.host}  ok  nothing of ours"
