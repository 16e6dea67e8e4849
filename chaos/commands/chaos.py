"""`r2cc chaos`: run experiments, check their files, list faults. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.commands.campaign import campaign
from chaos.commands.faults import faults
from chaos.commands.run import run
from chaos.commands.soak import soak
from harness.commands.options import ExperimentPath, json_option
from harness.commands.values import yaml_with
from harness.schemas import dumped


@click.group()
def chaos() -> None:
    """Break NICs and links on purpose while collectives run, and judge what happens.

    \b
    Examples:
      r2cc chaos run experiments/nic_down.yaml
      r2cc chaos validate experiments/*.yaml
      r2cc chaos faults
    """


chaos.add_command(run)
chaos.add_command(soak)
chaos.add_command(campaign)
chaos.add_command(faults)


@chaos.command()
@click.argument("files", nargs=-1, required=True, type=ExperimentPath(), shell_complete=yaml_with(b"workload"))
@json_option("Print what each file holds, or its errors, as JSON.")
def validate(files: tuple[Path, ...], as_json: bool) -> int:
    """Check experiment FILES; every error of every file is listed, with its line. A folder means every file in it.

    \b
    Examples:
      r2cc chaos validate experiments/*.yaml
      r2cc chaos validate experiments/false_positives
      r2cc chaos validate experiments/*.yaml --json
    """
    from chaos.run.suite import Validated, checked, files_of
    from harness.errors import InputErrors

    found = [checked(each) for file in files for each in files_of(file)]
    errors = [error for each in found for error in each.errors]
    if as_json:
        click.echo(dumped(Validated(found)))
        return InputErrors.exit_code if errors else 0
    for each in found:
        if not each.errors:
            click.echo(f"{each.file}: ok ({each.name}: {each.faults} fault(s), arms {', '.join(each.arms or ())})")
    if errors:
        raise InputErrors(errors)
    return 0
