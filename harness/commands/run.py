"""`r2cc run`: other people's workloads over the patched NCCL. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.commands import launch as launch_cmd
from harness.commands.launcher_option import LauncherType
from harness.commands.options import FilePath, json_option, quiet_option
from harness.commands.site_option import site_option
from harness.schemas import dumped
from harness.workloads.nccltests.spec import OPS

if TYPE_CHECKING:
    from harness.programs.nccltests import Plan
    from harness.sites.site import Site

F = TypeVar("F", bound=Callable[..., Any])
PASS_ON = {"ignore_unknown_options": True}


def common(command: F) -> F:
    """What every workload takes."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Print the command; start nothing."),
        click.option(
            "--library",
            type=FilePath(exists=True, dir_okay=False, resolve_path=True),
            help="The NCCL to preload. Without it: what `r2cc build nccl` made.",
        ),
        click.option("--mode", type=click.IntRange(0, 3), default=2, help=launch_cmd.MODE_HELP),
    ):
        command = option(command)
    return command


@click.group(cls=launch_cmd.Workloads, short_help="Run a workload: ours on any testbed, nccl-tests, vLLM or DeepSpeed.")
def run() -> None:
    """Run a workload over the patched NCCL: ours on the hosts of an inventory, or programs of the user's own.

    \b
    Examples:
      r2cc run bench --inventory lab
      r2cc run ddp --launcher torchrun --inventory cluster.yaml
      salloc -N 2 r2cc run bench --launcher srun
      r2cc run nccl-tests --launcher mpirun --inventory cluster.yaml --gpus 8 --bin /opt/nccl-tests/bin
      r2cc run nccl-tests --op all_reduce --gpus 2
      r2cc run nccl-tests --op alltoall --gpus 4 --mpi node1,node2 --begin 1M --end 1G
      r2cc run vllm serve MODEL --tensor-parallel 4 --dry-run
      r2cc run deepspeed --hostfile hosts train.py --deepspeed_config ds.json
    """


run.add_command(launch_cmd.bench)


@run.command("nccl-tests")
@click.option("--op", type=click.Choice(OPS), default="all_reduce", help="Which program to run.")
@click.option(
    "--bin",
    "folder",
    type=FilePath(file_okay=False, resolve_path=True),
    help="Where its programs are. Without it: what `r2cc build nccl-tests` made.",
)
@click.option("--gpus", type=click.IntRange(1, 64), default=1, help="How many GPUs of each host.")
@click.option(
    "--launcher",
    type=LauncherType(),
    metavar="NAME",
    help="What starts the ranks on the hosts of --inventory, or Slurm's: mpirun or srun.",
)
@site_option(default="slurm")
@launch_cmd.of_launcher
@click.option(
    "--mpi", metavar="HOST,HOST", help="Hosts for mpirun, with one process a GPU. Without it: one process on this host."
)
@click.option("--begin", metavar="SIZE", default="8", help="The smallest size, for example 8, 64K or 1M.")
@click.option("--end", metavar="SIZE", default="1G", help="The largest size; sizes double from the smallest on.")
@click.option("--iterations", type=click.IntRange(1, 100_000), default=20, help="How many iterations of each size.")
@click.option(
    "--warmup", type=click.IntRange(0, 10_000), default=5, help="How many iterations are run before the measured ones."
)
@click.option("--each-iteration", is_flag=True, help="Time every iteration; the times are in the JSON.")
@click.option("--cycles", type=click.IntRange(0), default=1, help="How often to go through all sizes; 0: for ever.")
@click.option("--timeout-s", type=click.FloatRange(0, min_open=True), help="End it after so long (exit code 3).")
@json_option("Print the figures as JSON; what the program prints, on stderr.")
@quiet_option("With --json, leave out what the program prints.")
@common
def nccl_tests(
    *, folder: Path | None, mpi: str | None, launcher: str | None, site: Site, mode: int, library: Path | None,
    envs: tuple[str, ...], oob: str | None, prefix: str | None, timeout_s: float | None, dry_run: bool, as_json: bool,
    quiet: bool, **given: Any,
) -> int:  # fmt: skip
    """Run one program of nccl-tests, show its rows as they come, and check every element of the results.

    --env, --oob and --prefix go with --launcher.

    \b
    Examples:
      r2cc run nccl-tests --op all_reduce --gpus 2
      r2cc run nccl-tests --op alltoall --gpus 4 --begin 1M --end 1G --json
    \b
    Exit codes: 0 all results right, 1 wrong elements, 2 bad usage, 3 it failed or ended early, 130 interrupted.
    """
    from harness.programs.nccltests import Plan
    from harness.workloads.nccltests.spec import Spec

    spec = Spec(folder=folder or _built_tests(), **given)
    shown = (dry_run, as_json, quiet, timeout_s)
    if launcher is not None:
        if mpi is not None:
            raise click.UsageError("--mpi names hosts for mpirun; --launcher takes them from --inventory")
        about: Any = {"mode": mode, "gpus": spec.gpus, "envs": envs, "oob": oob, "prefix": prefix, "dry_run": dry_run}
        if folder is None:
            raise click.UsageError("nccl-tests are not deployed: say with --bin where they lie on the hosts")
        with launch_cmd.tests_under(launcher, site, **about) as under:
            return _tests(Plan(spec, None, mode, None, {}, under=under), *shown)
    hosts = None if mpi is None else [host.strip() for host in mpi.split(",") if host.strip()]
    plan = Plan(spec, hosts, mode, _library(library, mode), dict(os.environ), as_root=os.geteuid() == 0)
    return _tests(plan, *shown)


def _tests(plan: Plan, dry_run: bool, as_json: bool, quiet: bool, timeout_s: float | None) -> int:
    from harness.programs.nccltests import run_tests

    if dry_run:
        launch = plan.launch()
        click.echo(dumped(launch.planned("nccl-tests"), 1) if as_json else launch.text())
        return 0

    def heard(line: str) -> None:
        if not (as_json and quiet):
            click.echo(line, nl=False, err=as_json)

    result = run_tests(plan, heard, timeout_s=timeout_s)
    if as_json:
        click.echo(dumped(result.whole(), 1))
    click.echo(result.sentence(), err=True)
    return result.exit_code


@run.group()
def vllm() -> None:
    """Serve with vLLM over the patched NCCL, and measure the server.

    \b
    Examples:
      r2cc run vllm serve MODEL --tensor-parallel 4
      r2cc run vllm bench MODEL --prompts 200
    """


@vllm.command("serve", context_settings=PASS_ON)
@click.argument("model")
@click.argument("more", nargs=-1, type=click.UNPROCESSED)
@click.option("--tensor-parallel", type=click.IntRange(1, 1024), default=1, help="How many GPUs share the model.")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, help="The port of the server.")
@common
def vllm_serve(*, model: str, mode: int, library: Path | None, dry_run: bool, **given: Any) -> int:
    """`vllm serve MODEL` with R2CC's environment; MORE goes to vLLM as it is.

    \b
    Examples:
      r2cc run vllm serve MODEL --tensor-parallel 4 --dry-run
      r2cc run vllm serve MODEL --port 8001 --max-model-len 4096
    """
    from harness.programs import adapters

    found = _library(library, mode)
    env = adapters.r2cc_env(found, mode, os.environ)
    launch = adapters.vllm_serve(model, env, found, **given)
    return _start(launch, dry_run=dry_run)


@vllm.command("bench", context_settings=PASS_ON)
@click.argument("model")
@click.argument("more", nargs=-1, type=click.UNPROCESSED)
@click.option("--port", type=click.IntRange(1, 65535), default=8000, help="The port of the server.")
@click.option("--prompts", type=click.IntRange(1), default=100, help="How many prompts are sent.")
@click.option("--input-tokens", type=click.IntRange(1), default=1024, help="Tokens of a prompt.")
@click.option("--output-tokens", type=click.IntRange(1), default=128, help="Tokens of an answer.")
@click.option("--seed", type=click.IntRange(0), default=1, help="The seed of the prompts.")
@click.option("--dry-run", is_flag=True, help="Print the command; start nothing.")
def vllm_bench(*, model: str, more: tuple[str, ...], dry_run: bool, **numbers: int) -> int:
    """`vllm bench serve` against a server on this host: time to first token, per token, and between tokens.

    \b
    Examples:
      r2cc run vllm bench MODEL --prompts 200
      r2cc run vllm bench MODEL --port 8001 --input-tokens 512 --dry-run
    """
    from harness.programs import adapters

    return _start(adapters.vllm_bench(model, more=more, **numbers), dry_run=dry_run)


@run.command(context_settings={**PASS_ON, "allow_interspersed_args": False})
@click.argument("script", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--hostfile",
    type=FilePath(exists=True, dir_okay=False),
    help="The file of hosts and their slots.",
)
@click.option("--gpus", type=click.IntRange(1, 64), help="How many GPUs of each host to use. Without it: all.")
@click.option("--master", metavar="ADDRESS", help="The address of the first host.")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="The port where ranks meet. Without it: one that is free here, or 29500 with --hostfile.",
)
@common
def deepspeed(
    *, script: tuple[str, ...], mode: int, library: Path | None, dry_run: bool, port: int | None, **where: Any
) -> int:
    """`deepspeed SCRIPT ARGS` with R2CC's environment on every host; our options go before SCRIPT.

    \b
    Examples:
      r2cc run deepspeed --hostfile hosts train.py --deepspeed_config ds.json
      r2cc run deepspeed --gpus 4 --dry-run train.py
    """
    from harness.programs import adapters

    env = adapters.r2cc_env(_library(library, mode), mode, os.environ)
    if port is None and where["hostfile"] is None and not dry_run:
        port = _free_port()
    return _start(adapters.deepspeed(script, env, os.environ, port=port or 29500, **where), dry_run=dry_run)


def _free_port() -> int:
    from harness.hosts import LocalHost
    from harness.launch.plan import free_port

    return free_port(LocalHost(), sys.executable, "this machine", "ranks")


def _start(launch: Any, *, dry_run: bool) -> int:
    from harness.programs.foreground import run_launch

    if dry_run:
        click.echo(launch.text())
        if launch.exported:
            click.echo("# on every host, through DS_ENV_FILE:\n" + launch.env_file(), nl=False)
        return 0
    return run_launch(launch)


def _built_tests() -> Path:
    from harness.repo import programs

    return programs().nccl.with_name("nccl-tests") / "bin"


def _library(named: Path | None, mode: int) -> Path | None:
    """The patched NCCL; None for mode 0 where none was built: stock can be what the program finds."""
    from harness.errors import UsageError
    from harness.repo import programs

    library = named or programs().nccl / "lib" / "libnccl.so.2"
    if library.is_file():
        return library
    if mode == 0:
        return None
    raise UsageError(f"there is no patched NCCL in {library.parent}", "r2cc build nccl, or name one with --library")
