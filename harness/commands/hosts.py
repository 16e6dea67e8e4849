"""`r2cc hosts`: which hosts an inventory means, and whether they all answer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from harness.commands.options import json_option, quiet_option
from harness.commands.site_option import site_option
from harness.commands.waiting import waiting
from harness.errors import InfraError
from harness.schemas import dumped

if TYPE_CHECKING:
    from rich.table import Table

    from harness.hosts import Host
    from harness.hosts.check import Answered, Checked
    from harness.hosts.parallel import Outcome
    from harness.sites.site import Site

    Told = Callable[[Outcome[Answered]], None]

inventory_option = site_option(default="lab")


@click.group()
def hosts() -> None:
    """The hosts of an inventory: what they are, and whether they answer.

    \b
    Examples:
      r2cc hosts list --inventory cluster.yaml
      r2cc hosts check --inventory cluster.yaml
    """


@hosts.command(name="list")
@inventory_option
@json_option()
def list_(site: Site, as_json: bool) -> None:
    """Show the hosts of an inventory and how they are reached, with ~/.ssh/config applied; connects to none.

    \b
    Examples:
      r2cc hosts list
      r2cc hosts list --inventory cluster.yaml:node[01-16]
    """
    from harness.sites.listing import Listing, line

    found = site.listing()
    if as_json:
        click.echo(dumped(Listing(str(site), found)))
        return
    for host in found:
        click.echo(line(host))


@hosts.command()
@inventory_option
@json_option()
@quiet_option()
def check(site: Site, as_json: bool, quiet: bool) -> int:
    """Connect to all hosts at once and run a no-op on each, twice: cold, and over the open connections.

    Exit code 0 when all answer, 3 when one does not; what is wrong is said of each one.

    \b
    Examples:
      r2cc hosts check
      r2cc hosts check --inventory cluster.yaml --json
    """
    from harness.hosts.check import answers
    from harness.hosts.check import check as check_all

    with site.connected() as found:
        if as_json:
            checked = check_all(found)
            click.echo(dumped(answers(checked, str(site), found)))
        elif sys.stdout.isatty():
            with nullcontext(lambda _outcome: None) if quiet else waiting(found, "asking them again") as told:
                checked = check_all(found, told)
            _print_table(checked, found)
        else:
            checked = check_all(found, lambda outcome: click.echo(_line(outcome)))
            click.echo(_sum(checked))
    return InfraError.exit_code if checked.failed else 0


def _line(outcome: Outcome[Answered]) -> str:
    if outcome.value is None:
        return f"{outcome.host}  FAILED  {outcome.why}"
    connect_ms = outcome.value.connect_ms
    connect = "" if connect_ms is None else f"  connect {connect_ms:.0f} ms"
    return f"{outcome.host}  ok{connect}  command {outcome.value.command_ms:.1f} ms"


def _sum(checked: Checked) -> str:
    total = len(checked.outcomes)
    warm = "" if checked.warm_ms is None else f"; a no-op over open connections {checked.warm_ms / 1000:.2f} s"
    return f"{total - len(checked.failed)} of {total} hosts answer; all asked in {checked.cold_ms / 1000:.2f} s{warm}"


def _print_table(checked: Checked, found: Mapping[str, Host]) -> None:
    from rich.console import Console

    Console(highlight=False).print(_table(checked, found))
    for outcome in checked.failed:
        click.echo(f"{outcome.error}")
    click.echo(_sum(checked))


def _table(checked: Checked, found: Mapping[str, Host]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    from harness.hosts.check import address_of, kind_of

    table = Table(box=None, pad_edge=False)
    for name in ("host", "address", "state"):
        table.add_column(name)
    for name in ("connect ms", "command ms"):
        table.add_column(name, justify="right")
    for name, outcome in checked.outcomes.items():
        state = "[green]ok[/]" if outcome.error is None else f"[red]{kind_of(outcome.error)}[/]"
        value = outcome.value
        connect = f"{value.connect_ms:.0f}" if value and value.connect_ms is not None else ""
        table.add_row(
            name, escape(address_of(found[name]) or ""), state, connect, f"{value.command_ms:.1f}" if value else ""
        )
    return table
