"""`r2cc chaos faults`: all kinds, and which of them each host can carry. Imports little: loaded for `r2cc --help`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from harness.commands.options import json_option
from harness.commands.site_option import site_option
from harness.schemas import dumped

if TYPE_CHECKING:
    from rich.table import Table

    from chaos.faults.catalogue import ListedFault, Way
    from chaos.faults.needs import Able
    from chaos.faults.support import Support
    from harness.hosts import Host
    from harness.sites.site import Site

ASK_S = 20.0
FEW_HOSTS = 4


def _kinds(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    from chaos.faults.registry import kinds

    return [CompletionItem(name, help=kind.does) for name, kind in kinds().items() if name.startswith(incomplete)]


@click.command()
@click.argument("fault", nargs=-1, shell_complete=_kinds)
@site_option(text="Whose hosts to ask. Without it: this machine.")
@click.option("--host", "only", metavar="HOST", help="Ask only this host.")
@click.option("--commands", is_flag=True, help="Show the exact commands for an example; ask nobody.")
@json_option("Print the faults as JSON, with the commands.")
def faults(*, fault: tuple[str, ...], site: Site | None, only: str | None, commands: bool, as_json: bool) -> int:
    """List all faults, or those named: what each does, what others see, and whether a host has what it needs.

    Exit code 0; 3 when a host cannot be asked (the others' answers are shown).

    \b
    Examples:
      r2cc chaos faults
      r2cc chaos faults --inventory cluster.yaml
      r2cc chaos faults --inventory cluster.yaml --host node03 --json
      r2cc chaos faults link_down --commands
    """
    from chaos.faults.catalogue import Listing, catalogue

    entries = _named(catalogue(), fault)
    if commands and not as_json:
        click.echo("\n".join(line for entry in entries for line in _told(entry)))
        return 0
    able, errors, inside = ({}, {}, True) if commands else _asked(site, only)
    support = _support(able, inside=inside)
    if as_json:
        click.echo(dumped(Listing([replace(entry, hosts=support[entry.kind]) for entry in entries]), 1))
    elif able or not errors:
        _print(entries, able, support, inside=inside)
        if site is None:
            click.echo("Asked was this machine itself; the lab needs no root: r2cc chaos faults --inventory lab")
    for name, error in errors.items():
        click.echo(f"{name}: {error}", err=True)
    if errors and not able and not as_json:
        click.echo("no host could be asked; without --inventory this machine is, and all faults are listed", err=True)
    return 3 if errors else 0


def _named(entries: list[ListedFault], names: Sequence[str]) -> list[ListedFault]:
    from chaos.faults.registry import problem_of
    from harness.errors import UsageError

    found = [entry for entry in entries if not names or entry.kind in names]
    if missing := set(names) - {entry.kind for entry in found}:
        raise UsageError(problem_of(min(missing)))
    return found


def _asked(site: Site | None, only: str | None) -> tuple[dict[str, Able], dict[str, str], bool]:
    """(answers, errors, whether faults act inside the hosts). UsageError when there is no such host."""
    from harness.errors import UsageError
    from harness.hosts import LocalHost

    if site is None:
        if only is not None:
            raise UsageError("--host says which host of an inventory", "give --inventory, too")
        return *_answers({"localhost": LocalHost()}), True
    with site.connected(to_break=True) as hosts:
        return *_answers(_chosen(hosts, only, site)), not site.has_switch


def _chosen(hosts: Mapping[str, Host], only: str | None, site: Site) -> Mapping[str, Host]:
    from harness.errors import UsageError

    if only is None:
        return hosts
    if only not in hosts:
        raise UsageError(f"{site} has no host {only}", f"it has {', '.join(hosts)}")
    return {only: hosts[only]}


def _answers(hosts: Mapping[str, Host]) -> tuple[dict[str, Able], dict[str, str]]:
    from harness.hosts.parallel import on_all

    outcomes = on_all({name: partial(_ask, host) for name, host in hosts.items()})
    found = {name: each.value for name, each in outcomes.items() if each.value is not None}
    return found, {name: each.why for name, each in outcomes.items() if each.error is not None}


def _ask(host: Host) -> Able:
    from chaos.faults.needs import parse, question
    from harness.errors import InfraError

    answer = host.run(question(), timeout_s=ASK_S, check=False)
    try:
        return parse(answer)
    except (ValueError, IndexError) as error:
        said = answer.stderr.strip().splitlines()[-1:] or [str(error)]
        raise InfraError(f"cannot be asked what it has: {said[0]}", "its shell and /proc are needed there") from error


def _support(able: Mapping[str, Able], *, inside: bool) -> dict[str, dict[str, Support]]:
    from chaos.faults.catalogue import example
    from chaos.faults.registry import kinds
    from chaos.faults.support import table

    return table(able, [example(kind, inside=inside) for kind in kinds()])


def _print(
    entries: Sequence[ListedFault],
    able: Mapping[str, Able],
    support: Mapping[str, Mapping[str, Support]],
    *,
    inside: bool,
) -> None:
    from rich.console import Console

    for line in _nics(able):
        click.echo(line)
    console = Console(soft_wrap=False, highlight=False)
    console.print(_table(entries, list(able), support, inside=inside))
    click.echo("`--commands` shows how each is done; docs/reference/faults.md says more.")


def _nics(able: Mapping[str, Able]) -> list[str]:
    """By what drives them, as some faults need that: nothing where all are virtual, or hosts are of many kinds."""
    from harness.doctor.fold import fold

    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name, each in able.items():
        alike.setdefault((each.adapters, each.rdma), []).append(name)
    if len(alike) > FEW_HOSTS or not any(drivers or rdma for drivers, rdma in alike):
        return []
    return [
        f"NICs of {fold(names)}: {drivers or 'virtual ones alone'}" + (f"; RDMA: {', '.join(rdma)}" if rdma else "")
        for (drivers, rdma), names in alike.items()
    ]


def _table(
    entries: Sequence[ListedFault], hosts: Sequence[str], support: Mapping[str, Mapping[str, Support]], *, inside: bool
) -> Table:
    from rich.table import Table

    from harness.doctor.fold import fold

    made = Table(box=None, pad_edge=False)
    made.add_column("fault", no_wrap=True)
    made.add_column("what it does")
    columns: list[tuple[str, Callable[[Mapping[str, Support]], str]]] = [("supported", partial(_summary, hosts))]
    if len(alike := _alike(hosts, support)) <= FEW_HOSTS:
        columns = [(fold(group), partial(_one, group[0])) for group in alike]
    for name, _ in columns:
        made.add_column(name)
    for entry in entries:
        here = entry.cluster if inside else entry
        does = here.does + (" (kernel path only)" if here.kernel_path_only else "")
        made.add_row(entry.kind, does, *(cell(support[entry.kind]) for _, cell in columns))
    return made


def _alike(hosts: Sequence[str], support: Mapping[str, Mapping[str, Support]]) -> list[list[str]]:
    """Hosts of one answer to everything stand in one column."""
    groups: list[list[str]] = []
    for host in hosts:
        for group in groups:
            if all(each[group[0]] == each[host] for each in support.values()):
                group.append(host)
                break
        else:
            groups.append([host])
    return groups


def _one(host: str, support: Mapping[str, Support]) -> str:
    found = support[host]
    if not found.supported:
        return f"no: {'; '.join(found.why)}"
    return f"yes ({'; '.join(found.notes)})" if found.notes else "yes"


def _summary(hosts: Sequence[str], support: Mapping[str, Support]) -> str:
    """Of many hosts: how many can, and why the first that cannot does not."""
    without = [host for host in hosts if not support[host].supported]
    if not without:
        return "yes: all"
    why = f"{without[0]}: {'; '.join(support[without[0]].why)}"
    return f"{len(hosts) - len(without)} of {len(hosts)}; {why}"


def _told(entry: ListedFault) -> list[str]:
    lines = [entry.kind, *_about(entry)]
    other = entry.cluster
    same = all(getattr(other, key) == getattr(entry, key) for key in ("inject", "revert", "probe"))
    return (
        lines if same else [*lines, "  where nobody lets us into the switch:", *(f"  {line}" for line in _about(other))]
    )


def _about(entry: Way) -> list[str]:
    from chaos.faults.catalogue import needs
    from chaos.faults.parts.keep import shortened

    lines = [f"  does   {entry.does}", f"  seen   {entry.peer_sees}", f"  needs  {needs(entry)} (on {entry.on})"]
    return lines + [f"  {word:<6} {shortened(getattr(entry, word))}" for word in ("inject", "revert", "probe")]
