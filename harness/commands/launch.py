"""`r2cc run KIND` for every kind of workload, on the hosts of an inventory. Light: loaded for `r2cc --help`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from harness.commands.launcher_option import LauncherType
from harness.commands.options import Size, changes_of, json_option, quiet_option, set_option
from harness.commands.site_option import site_option
from harness.schemas import dumped

if TYPE_CHECKING:
    from harness.launch.hosts import JobHosts
    from harness.launch.run import Result
    from harness.launch.workloads import Asked
    from harness.programs.adapters import Launch
    from harness.sites.site import Site
    from harness.workloads.kinds.workload import Workload

F = TypeVar("F", bound=Callable[..., Any])
CORRUPT = re.compile(r"[0-9]{1,6}:[0-9]{1,6}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NAMES = "ssh, mpirun, srun or torchrun"
MODE_HELP = "R2CC_MODE: 0 stock, 1 migrate, 2 balance, 3 allreduce."


def _not_empty(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    """An empty one is mostly a variable of a script that was not set."""
    if text is not None and not text.strip():
        raise click.BadParameter("it is empty")
    return text


def _elements(_context: click.Context, _parameter: click.Parameter, size: int) -> int:
    if size % 4:
        raise click.BadParameter(f"{size} is no multiple of 4, the size of an element")
    return size


def _network(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    """Also one of a single address; mpirun itself would say in twenty lines that it is none."""
    import ipaddress

    try:
        return text and str(ipaddress.IPv4Network(text, strict=False))
    except ValueError:
        raise click.BadParameter(f"{text!r} is no network such as 10.0.0.0/24") from None


def of_launcher(command: F) -> F:
    """What a launcher is told besides the hosts."""
    for option in (
        click.option(
            "--env",
            "envs",
            multiple=True,
            metavar="NAME[=VALUE]",
            help="Set a variable for all ranks; without a value: as it is here. May be repeated.",
        ),
        click.option(
            "--oob",
            metavar="NET",
            callback=_network,
            help="The network of mpirun's daemons, as a.b.c.d/n. Without it: the one shared with the hosts.",
        ),
        click.option("--prefix", metavar="DIR", help="Under Slurm: where the build was deployed (default: ~/.r2cc)."),
    ):
        command = option(command)
    return command


def where(command: F) -> F:
    """Where a job runs and what starts it."""
    for option in (
        click.option(
            "--root",
            callback=_not_empty,
            metavar="ADDRESS",
            help="The first host's address, where ranks meet. Without it: its management NIC's.",
        ),
        click.option(
            "--ranks-per-host",
            type=click.IntRange(1, 1024),
            help="How many ranks a host has. Without it: one, one a GPU, or Slurm's tasks.",
        ),
        of_launcher,
        site_option(default="lab"),
        click.option(
            "--launcher", type=LauncherType(), default="ssh", metavar="NAME", help=f"What starts the ranks: {NAMES}."
        ),
    ):
        command = option(command)
    return command


def _corrupt(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    if text and not CORRUPT.fullmatch(text):
        raise click.BadParameter(f"{text!r} is no RANK:ITERATION")
    return text


def _job_options(command: F) -> F:
    for option in (
        json_option("Print the figures as JSON."),
        click.option("--dry-run", is_flag=True, help="Print every command; start nothing."),
        quiet_option(),
        click.option("--corrupt", default="", hidden=True, callback=_corrupt, metavar="RANK:ITERATION"),
        click.option(
            "--port",
            type=click.IntRange(1, 65535),
            help="The port where ranks meet. Without it: one that is free on the first host.",
        ),
        click.option(
            "--timeout-s",
            type=click.IntRange(1, 86_400),
            default=120,
            help="After how many seconds a collective counts as hung.",
        ),
        click.option("--seed", type=click.IntRange(0), default=1, help="The seed of the data."),
        click.option(
            "--warmup",
            type=click.IntRange(0, 1000),
            default=2,
            help="How many iterations are run before the measured ones.",
        ),
        click.option(
            "--iterations", type=click.IntRange(1, 1_000_000), default=20, help="How many iterations are measured."
        ),
        click.option("--mode", type=click.IntRange(0, 3), default=2, help=MODE_HELP),
    ):
        command = option(command)
    return where(command)


PYTHON = click.option(
    "--python", callback=_not_empty, default="python3", envvar="R2CC_PYTHON", help="A Python that has torch."
)
ONLY_IN_EXPERIMENTS = frozenset({"command", "nccl_tests", "inference"})
"""Programs that are not ours: `r2cc chaos run` reads what they print."""


class Workloads(click.Group):
    """A group that has a command of each kind of workload besides its own; a kind is imported when first needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from harness.plugins import entries

        kinds = {entry.name for entry in entries("r2cc.workloads")} - ONLY_IN_EXPERIMENTS
        return sorted({*super().list_commands(ctx), *kinds})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One that cannot be used is said on stderr, and is no command."""
        if cmd_name not in self.commands and cmd_name in self.list_commands(ctx):
            from harness.workloads.kinds.registry import kinds

            kind = kinds().get(cmd_name)
            if kind is not None and not kind.foreign:
                self.add_command(_kind_command(cmd_name, kind))
        return super().get_command(ctx, cmd_name)


@click.command(short_help="The host bench: all-reduces that are checked bit by bit; no GPU.")
@click.option(
    "--bytes",
    "size",
    type=Size(4, 1 << 40),
    metavar="SIZE",
    callback=_elements,
    default=64 << 20,
    help="The size of an all-reduce, such as 64M.",
)
@set_option("Set another of the bench's settings; may be repeated.")
@PYTHON
@_job_options
def bench(*, size: int, settings: tuple[str, ...], **given: Any) -> int:
    """Run the host bench, one rank a host, and check every element.

    \b
    Examples:
      r2cc run bench --inventory lab
      r2cc run bench --launcher mpirun --inventory cluster.yaml --ranks-per-host 2
      salloc -N 4 r2cc run bench --launcher srun
    Exit codes: 0 all exact, 1 wrong elements, 2 bad usage, 3 it failed or hung, 130 interrupted.
    """
    return _run("bench", spec={"bytes": size, **changes_of(settings)}, **given)


CPU = click.option("--cpu", is_flag=True, help="Use gloo on CPUs instead of NCCL, to try the launch alone.")


def _kind_command(kind: str, model: type[Workload]) -> click.Command:
    def command(*, settings: tuple[str, ...], **given: Any) -> int:
        return _run(kind, spec=changes_of(settings), **given)

    of_kind = set_option("Set one of the workload's settings; may be repeated.")
    for option in (_job_options, of_kind, *((CPU, PYTHON) if model.on_gpus else ())):
        command = option(command)
    text = f"""{model.about} One rank a {"GPU" if model.on_gpus else "host"}.

    \b
    Examples:
      r2cc run {kind} --inventory cluster.yaml --iterations 100
      r2cc run {kind} --launcher mpirun --inventory cluster.yaml --dry-run
    Exit codes: 0 all exact, 1 wrong elements, 2 bad usage, 3 it failed or hung, 130 interrupted.
    """
    made = click.command(kind, short_help=model.about, help=text)(command)
    for param in made.params:
        if param.name == "settings":
            setattr(param, "shell_complete", partial(_names, model))  # noqa: B010 - a method, here of one object
    return made


def _names(model: type[Workload], _context: click.Context, incomplete: str) -> list[CompletionItem[str]]:
    return [CompletionItem(f"{name}=") for name in model.outside().own() if name.startswith(incomplete)]


def environment(words: tuple[str, ...]) -> dict[str, str]:
    """What `--env` asks for. UsageError for a variable that we do not have."""
    from harness.errors import UsageError

    found = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not VARIABLE.fullmatch(name):
            raise UsageError(f"--env {word}: {name!r} is no name of a variable", "write --env NAME=VALUE")
        if not sign and name not in os.environ:
            raise UsageError(f"--env {name}: there is no such variable here", f"export it, or give --env {name}=VALUE")
        found[name] = value if sign else os.environ[name]
    return found


def _run(
    kind: str, *, launcher: str, site: Site, dry_run: bool, as_json: bool, quiet: bool, prefix: str | None,
    oob: str | None, envs: tuple[str, ...], port: int | None, **given: Any,
) -> int:  # fmt: skip
    import tempfile
    from dataclasses import replace

    from harness.launch.hosts import opened
    from harness.launch.plan import met, plan, ranks_port, starts
    from harness.launch.workloads import ROOT_PORT, Asked, check, check_site, job

    check(kind, launcher)
    check_site(kind, launcher, site)
    asked = Asked(kind, env=environment(envs), port=port or ROOT_PORT, **given)
    with opened(site, launcher=launcher, dry_run=dry_run, prefix=prefix) as hosts:
        if port is None and not dry_run:
            asked = replace(asked, port=ranks_port(asked, hosts))
        made = job(_placed(asked, hosts, launcher, oob), hosts, os.environ)
        made = made if dry_run else met(made, launcher, hosts.hosts)
        with tempfile.TemporaryDirectory(prefix="r2cc-run-") as folder:
            planned = plan(made, launcher, hosts, folder)
            if dry_run:
                click.echo(dumped(planned.hiding(), 1) + "\n" if as_json else planned.text(), nl=False)
                return 0
            from harness.launch.run import JobRun
            from harness.launch.watch import STARTING_S, Watch
            from harness.progress import show

            heard: Callable[[str], None] = lambda line: click.echo(line, err=True)  # noqa: E731
            title = f"{kind} on {len(made.hosts)} hosts, {made.ranks} ranks, {launcher}"
            with show(title) as step:
                watch = Watch(time.monotonic(), max(STARTING_S, asked.timeout_s + 30.0))
                run = JobRun(made, launcher, step.update, heard, watch)
                result = run.run(starts(planned, hosts.hosts, Path(folder)))
    _print(result, {"workload": kind, "launcher": launcher, "mode": asked.mode, "hosts": made.hosts}, as_json)
    return result.exit_code


def _placed(asked: Asked, hosts: JobHosts, launcher: str, oob: str | None) -> Asked:
    from dataclasses import replace

    from harness.launch.launchers.network import own_network
    from harness.launch.launchers.registry import launchers

    return replace(asked, out_of_band=oob or own_network(hosts.targets)) if launchers()[launcher].daemons else asked


def _print(result: Result, about: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        from harness.launch.run import JobResult

        known = vars(result.figures)
        click.echo(dumped(JobResult(**about, exit_code=result.exit_code, reason=result.reason, **known)))
    click.echo(("r2cc: error: " if result.exit_code else "") + result.sentence(), err=as_json or bool(result.exit_code))


@contextmanager
def tests_under(
    launcher: str, site: Site, *, mode: int, gpus: int, envs: tuple[str, ...], oob: str | None, prefix: str | None,
    dry_run: bool,
) -> Iterator[Callable[[tuple[str, ...]], Launch]]:  # fmt: skip
    """What starts programs of nccl-tests on the hosts of an inventory."""
    import tempfile
    from dataclasses import replace

    from harness.launch.hosts import opened
    from harness.launch.plan import plan, starts
    from harness.launch.workloads import Asked, check, job
    from harness.programs.adapters import Launch

    check("nccl-tests", launcher)
    asked = Asked("nccl-tests", mode, gpus, env=environment(envs))
    with (
        opened(site, launcher=launcher, dry_run=dry_run, prefix=prefix) as hosts,
        tempfile.TemporaryDirectory(prefix="r2cc-run-") as folder,
    ):
        made = job(_placed(asked, hosts, launcher, oob), hosts, os.environ)

        def under(words: tuple[str, ...]) -> Launch:
            planned = plan(replace(made, program=words), launcher, hosts, folder, raw=True)
            if not dry_run:
                starts(planned, hosts.hosts, Path(folder))
            (command,) = planned.commands
            return Launch(command.argv, dict(command.env))

        yield under
