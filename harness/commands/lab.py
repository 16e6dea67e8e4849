"""`r2cc lab`: bring a lab up to look around in, see what is up, run commands in it, take it down."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.commands.options import json_option, quiet_option
from harness.errors import UsageError
from harness.schemas import dumped

if TYPE_CHECKING:
    from harness.lab.client import AgentHost
    from harness.lab.lab import Lab
    from harness.vmlab.lab import VmLab

DEFAULT_NAME = "lab"
NAME_PATTERN = r"[a-z0-9][a-z0-9_-]{0,31}"


def _checked_name(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    import re

    if not re.fullmatch(NAME_PATTERN, value):
        raise click.BadParameter("use lower-case letters, digits, '-' and '_', at most 32")
    return value


name_option = click.option("--name", default=DEFAULT_NAME, callback=_checked_name, help="The name of the lab.")


@click.group()
def lab() -> None:
    """Hosts, NICs and switches made of network namespaces; no root needed.

    \b
    Examples:
      r2cc lab up
      r2cc lab exec h0 -- ip -br addr
      r2cc lab down
    """


@lab.command()
@click.argument("topology", default=None, required=False, metavar="[FILE]")
@click.option(
    "--kind", type=click.Choice(["namespace", "vm", "uml"]), default="namespace", help="What the hosts are made of."
)
@click.option("--hosts", type=click.IntRange(1, 8), help="With --kind vm or uml: how many guests (default 2).")
@click.option("--nics", type=click.IntRange(1, 8), help="With --kind vm or uml: data NICs of a guest (default 4).")
@click.option("--ssh", is_flag=True, help="With --kind vm: guests run an SSH server; prints an inventory file of them.")
@click.option("--ttl", "ttl_s", type=click.IntRange(1), default=3600, help="After how many seconds it is taken down.")
@name_option
@json_option()
@quiet_option(given=False)
def up(
    *,
    topology: str | None,
    kind: str,
    hosts: int | None,
    nics: int | None,
    ssh: bool,
    ttl_s: int,
    name: str,
    as_json: bool,
) -> None:
    """Bring up a lab and leave it running until its time to live is over or `r2cc lab down`.

    FILE is a topology in YAML, or the name of a shipped one (default: four hosts, four NICs each, 1 Gbit/s a NIC).
    `--kind vm` boots emulated machines with soft-RoCE NICs instead, `--kind uml` the same in User Mode Linux, which is
    many times quicker (docs/howto/vm-lab.md).

    \b
    Examples:
      r2cc lab up
      r2cc lab up --kind vm --hosts 2 --nics 2 --ssh
    """
    started = time.monotonic()
    made: Lab | VmLab
    inventory = None
    if kind != "namespace":
        if topology is not None:
            raise UsageError(f"--kind {kind} takes no topology file", "use --hosts and --nics")
        made = guests = _vm_lab(kind, hosts, nics, ttl_s=ttl_s, name=name, ssh=ssh)
        inventory = str(guests.inventory_file) if ssh else None
    elif ssh:
        raise UsageError("--ssh is for --kind vm", "r2cc lab up --kind vm --ssh")
    else:
        made = _lab(topology, hosts, nics, ttl_s, name)
    for warning in made.warnings:
        click.echo(f"r2cc: warning: {warning}", err=True)
    if as_json:
        from harness.lab.shown import LabUp

        click.echo(dumped(LabUp(made.name, ttl_s, [*made.hosts], made.nics, made.warnings, inventory)))
        return
    click.echo(f"lab '{name}' is up after {time.monotonic() - started:.2f} s, for {ttl_s} s: {', '.join(made.hosts)}")
    click.echo(f"  r2cc lab exec {_name_flag(name)}{next(iter(made.hosts))} -- ip -br addr")
    if inventory:
        click.echo(f"  r2cc hosts check --inventory {inventory}")


def _lab(topology: str | None, hosts: int | None, nics: int | None, ttl_s: int, name: str) -> Lab:
    from harness.lab.lab import Lab
    from harness.lab.topology import Topology
    from harness.sites.lab import require_tools

    if hosts or nics:
        raise UsageError("--hosts and --nics are for --kind vm", "write them into a topology file")
    source = topology or "default"
    description = Topology.load(source if "/" not in source else Path(source))
    require_tools()
    return Lab.up(description, ttl_s=ttl_s, name=name)


def _vm_lab(kind: str, hosts: int | None, nics: int | None, *, ttl_s: int, name: str, ssh: bool) -> VmLab:
    from harness.progress import show
    from harness.vmlab.lab import VmLab
    from harness.vmlab.shape import Engine, Shape

    engine: Engine = "uml" if kind == "uml" else "vm"
    cores = len(os.sched_getaffinity(0))
    shape = Shape.fitting(cores, hosts=hosts or 2, nics=nics or 4, engine=engine, ssh=ssh)
    return VmLab.up(shape, ttl_s=ttl_s, name=name, progress=show)


def _name_flag(name: str) -> str:
    return "" if name == DEFAULT_NAME else f"--name {name} "


@lab.command()
@json_option()
def status(as_json: bool) -> None:
    """Show the labs that are up, those owned by a running experiment included.

    \b
    Examples:
      r2cc lab status
      r2cc lab status --json
    """
    from harness.lab.shown import LabStatus, LivingLab
    from harness.lab.state import living

    labs = [LivingLab.of(state) for state in living()]
    if as_json:
        click.echo(dumped(LabStatus(labs)))
    elif not labs:
        click.echo("no lab is up (r2cc lab up)")
    for one in () if as_json else labs:
        click.echo(one.text())


def _attach(name: str) -> tuple[Lab | VmLab, bool]:
    from harness.lab.lab import Lab
    from harness.lab.state import living
    from harness.vmlab.lab import VmLab

    is_vm = any(state["name"] == name and state.get("kind", "namespace") != "namespace" for state in living())
    return (VmLab.attach(name) if is_vm else Lab.attach(name)), is_vm


@lab.command(name="exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("host")
@click.argument("argv", nargs=-1, required=True, metavar="-- COMMAND...", type=click.UNPROCESSED)
@name_option
def exec_(host: str, argv: tuple[str, ...], name: str) -> int:
    """Run a command on a HOST of the lab (h0, h1, ..., or switch); its exit code is ours.

    \b
    Examples:
      r2cc lab exec h0 -- ip -br addr
      r2cc lab exec switch -- bridge link
    """
    from harness.lab.lab import enter_command

    argv = argv[1:] if argv[0] == "--" else argv
    made, is_vm = _attach(name)
    hosts: dict[str, AgentHost] = {**made.hosts, made.switch.name: made.switch}
    target = hosts.get(host)
    if target is None:
        raise UsageError(f"lab '{name}' has no host '{host}'", f"one of: {', '.join(made.hosts)}, {made.switch.name}")
    if sys.stdin.isatty() and not is_vm:  # a shell on a terminal needs job control, which only a child of ours can have
        command = enter_command(name, host, list(argv))
        os.execvp(command[0], command)
    process = target.spawn(argv, stdin=0, stdout=1, stderr=2)
    try:
        code = process.wait()
    finally:
        process.close()
    return code if code >= 0 else 128 - code


@lab.command()
@name_option
@json_option()
def down(name: str, as_json: bool) -> None:
    """Take a lab down, with everything that runs in it. Not an error when it is not up.

    \b
    Examples:
      r2cc lab down
      r2cc lab down --name lab2
    """
    from harness.lab.lab import down as take_down
    from harness.lab.shown import LabDown

    was_up = take_down(name)
    if as_json:
        click.echo(dumped(LabDown(name, was_up)))
    else:
        click.echo(f"lab '{name}' is down" if was_up else f"lab '{name}' was not up")
