"""`r2cc drain` and `r2cc undrain`: connections leave a NIC before it goes away."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from harness.commands.options import json_option
from harness.commands.watched import control_option, folder_of, status_option
from harness.schemas import dumped

EXAMPLES = """\b
Examples:
  r2cc drain h1:eth2 --control /run/r2cc-control --status /run/r2cc-status
  r2cc drain h1:eth2 --for 7200

\b
Exit codes: 0 the NIC carries nothing any more, 1 it is the last one, or still carries something when --wait is over,
2 bad usage.
"""
BACK = """\b
Examples:
  r2cc undrain h1:eth2 --control /run/r2cc-control
  r2cc undrain h1:eth2        where R2CC_CONTROL_DIR is set
"""
CONTROL = ("--control", "R2CC_CONTROL_DIR")


@click.command(epilog=EXAMPLES)
@click.argument("place", metavar="HOST:NIC")
@control_option
@status_option
@click.option("--for", "for_s", type=click.FloatRange(min=1), metavar="SECONDS", help="It ends by itself after that.")
@click.option("--wait", "wait_s", type=click.FloatRange(min=0), default=30, show_default=True, metavar="SECONDS",
              help="How long to wait until the NIC carries nothing.")  # fmt: skip
@json_option()
def drain(
    *, place: str, control: Path | None, status: Path | None, for_s: float | None, wait_s: float, as_json: bool
) -> int:
    """Have all jobs leave a NIC, without a stall, before it goes away: maintenance without a fault.

    Run it on that host, or where its folders can be reached, as the user of the jobs or as root. Jobs have to run with
    the same R2CC_CONTROL_DIR. With --status it looks first whether another NIC works, and waits until this one is
    left.
    """
    from harness.watch import drains

    folder, wanted = folder_of(control, *CONTROL), drains.place_of(place)
    if status is not None:
        drains.check_alternative(status, wanted)
    was_there = folder.exists()
    path = drains.drain(folder, wanted, for_s)
    if not was_there:
        click.echo(f"r2cc: {folder} was not there, and was made: is it the R2CC_CONTROL_DIR of the jobs?", err=True)
    unseen = "Without --status nobody sees when it is" if status is None else drains.unseen(status, wanted)
    left = None if status is None or unseen else drains.wait_until_left(status, wanted, wait_s)
    back = f"r2cc undrain {wanted} --control {shlex.quote(str(folder))}"
    if not left:
        nobody = f"{wanted} is to be left ({path}). {unseen}"
        done = f"{wanted} carries nothing any more. When it is back: {back}"
        result = drains.Drained(wanted.host, wanted.nic, True, left)
        click.echo(dumped(result) if as_json else nobody if left is None else done)
        return 0
    raise drains.Refused(
        f"{wanted} still carries something after {wait_s:g} s ({left} connections)",
        f"do the jobs run with R2CC_CONTROL_DIR={folder}, and have the hosts they talk with this version of R2CC? "
        f"{path} stays; `{back}` takes it back",
    )


@click.command(epilog=BACK)
@click.argument("place", metavar="HOST:NIC")
@control_option
@json_option()
def undrain(*, place: str, control: Path | None, as_json: bool) -> int:
    """Let jobs use a NIC again after `r2cc drain`.

    Exit codes: 0 done, 2 bad usage, or it was not drained.
    """
    from harness.watch import drains

    wanted = drains.place_of(place)
    drains.undrain(folder_of(control, *CONTROL), wanted)
    result = drains.Drained(wanted.host, wanted.nic, False, None)
    click.echo(dumped(result) if as_json else f"{wanted} is used again")
    return 0
