"""`r2cc plugin-path` and `r2cc env`: our library under a program that brings its own NCCL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.commands.options import json_option
from harness.schemas import dumped

if TYPE_CHECKING:
    from pathlib import Path

LIBRARIES = {"net": "libr2cc_net.so", "progress": "libr2cc_progress.so", "faults": "libr2cc_faults.so"}
STARTERS = ("shell", "torchrun", "mpirun", "srun", "kubernetes")


@click.command("plugin-path", short_help="Print where the net plugin lies, for NCCL_NET_PLUGIN.")
@click.argument("library", type=click.Choice([*LIBRARIES]), default="net", required=False)
def plugin_path(library: str) -> None:
    """Print the path of one of our libraries: net (the default), progress or faults.

    \b
    Examples:
      r2cc plugin-path
      r2cc plugin-path progress
      NCCL_NET_PLUGIN=$(r2cc plugin-path) python3 train.py
    \b
    Exit codes: 0 printed, 2 it has not been built.
    """
    click.echo(_library(library))


@click.command("env", short_help="Print what a job needs in its environment.")
@click.option(
    "--launcher", "starter", type=click.Choice(STARTERS), default="shell", help="What starts the job; how it is told."
)
@click.option("--mode", type=click.Choice(["0", "1", "2", "3"]), default="2", help="R2CC_MODE: 0 is stock's way.")
@json_option("Print variables and words as JSON.")
def env(starter: str, mode: str, as_json: bool) -> None:
    """Print what to export, or the words to add to mpirun, srun or a pod's manifest.

    The library must lie at the same path on all hosts of the job. Its folder is this machine's.

    \b
    Examples:
      eval "$(r2cc env)"
      eval "$(r2cc env --launcher torchrun)"; torchrun --nproc-per-node 8 train.py
      mpirun $(r2cc env --launcher mpirun) -np 16 ./train
      srun $(r2cc env --launcher srun) ./train
      r2cc env --launcher kubernetes
    \b
    Exit codes: 0 printed, 2 the library has not been built, or its path cannot be given to the launcher.
    """
    from harness.launch.settings import settings_of

    found = settings_of(starter, _library("net"), int(mode))
    click.echo(dumped(found, 1) if as_json else found.text)


def _library(name: str) -> Path:
    from harness.errors import UsageError
    from harness.repo import programs

    path = programs().net / LIBRARIES[name]
    if not path.is_file():
        raise UsageError(f"{path} has not been built", "r2cc build net")
    return path
