"""From a job and a launcher to the processes that are started, and to what `--dry-run` shows of them."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from harness.errors import InfraError, UsageError
from harness.hosts import Host, LocalHost
from harness.launch import commands
from harness.launch.job import Job
from harness.launch.network import towards
from harness.launch.processes import Start
from harness.launch.sshfiles import ssh_config
from harness.launch.streams import Labelled, Reader, Tagged, Whole
from harness.schemas.form import form

if TYPE_CHECKING:
    from harness.hosts.ssh.target import Target

SSH_CONFIG, HOSTFILE = "ssh_config", "hostfile"
SHOWN = ("NCCL_", "R2CC_", "GLOO_", "CUDA_", "SLURM_")
"""What else the user hands over may be a secret."""
HOW_TO_HAVE = {
    "mpirun": "sudo apt-get install openmpi-bin, here and on all hosts, in one version",
    "srun": "run it where Slurm's client programs are",
}
OWN_SESSION = ("setsid",)
"""Ctrl-C of a terminal is for us alone: it is we who end a launcher, once."""


class Reach(Protocol):
    """Hosts to start processes on. `targets`: how OpenSSH reaches them, where a launcher of its own does."""

    @property
    def hosts(self) -> Mapping[str, Host]: ...
    @property
    def targets(self) -> Sequence[Target]: ...


@dataclass(frozen=True)
class ShownCommand:
    host: str
    """empty: this machine"""
    shown: str
    argv: Sequence[str]
    env: Mapping[str, str | None]
    """null: a value that may be a secret"""


@form("job_plan", "r2cc run WORKLOAD --dry-run: what would be started, and the files that it needs")
@dataclass(frozen=True)
class JobPlan:
    """What a job would be."""

    launcher: str
    """empty: the program itself"""
    commands: Sequence[ShownCommand]
    files: Mapping[str, str]


@dataclass(frozen=True)
class Command:
    """One command on one host; `host` empty: on this machine."""

    host: str
    shown: str
    argv: list[str]
    env: Mapping[str, str]
    rank: int | None = None

    def text(self) -> str:
        """For people and for golden files: the environment, with the values that are ours to show, and the command."""
        where = f"# on {self.host}" if self.host else "# here"
        env = (f"{name}={value}" if name.startswith(SHOWN) else f"# and {name}" for name, value in self.env.items())
        lines = [f"{where}: {self.shown}", *sorted(env)]
        return "\n".join([*lines, shlex.join(self.argv)])

    def hiding(self) -> ShownCommand:
        """Without values that may be secrets."""
        env = {name: value if name.startswith(SHOWN) else None for name, value in self.env.items()}
        return ShownCommand(self.host, self.shown, self.argv, env)


@dataclass(frozen=True)
class Plan:
    """All commands of a job, and the files that they need on this machine, by name."""

    launcher: str
    commands: list[Command]
    files: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        files = [f"# file {name}\n{text}" for name, text in self.files.items()]
        return "\n".join([*(command.text() for command in self.commands), *files]).rstrip("\n") + "\n"

    def hiding(self) -> JobPlan:
        return JobPlan(self.launcher, [command.hiding() for command in self.commands], self.files)


def plan(job: Job, launcher: str, reach: Reach, folder: str, *, as_root: bool = False, raw: bool = False) -> Plan:
    """`folder`: where files will be. `raw`: the launcher puts nothing before the ranks' lines."""
    return {"ssh": _ssh, "torchrun": _torchrun, "srun": _srun, "mpirun": _mpirun}[launcher](
        job, reach, folder, as_root, raw
    )


def _ssh(job: Job, _reach: Reach, _folder: str, _as_root: bool, _raw: bool) -> Plan:
    made = []
    for rank in range(job.ranks):
        host = job.host_of(rank)
        env = {**job.env, **job.of_host.get(host, {}), **job.of_rank.get(rank, {})}
        made.append(Command(host, f"rank {rank} on {host}", commands.plain(job, rank), env, rank))
    return Plan("ssh", made)


def _torchrun(job: Job, _reach: Reach, _folder: str, _as_root: bool, _raw: bool) -> Plan:
    return Plan(
        "torchrun",
        [Command(host, f"torchrun on {host}", commands.torchrun(job, host), dict(job.env)) for host in job.hosts],
    )


def _srun(job: Job, _reach: Reach, folder: str, _as_root: bool, raw: bool) -> Plan:
    env = dict(job.env)
    files = {}
    if not job.even:
        files[HOSTFILE] = commands.slurm_hostfile(job)
        env["SLURM_HOSTFILE"] = str(Path(folder) / HOSTFILE)
    return Plan("srun", [Command("", "srun", commands.srun(job, labelled=not raw), env)], files)


def _mpirun(job: Job, reach: Reach, folder: str, as_root: bool, raw: bool) -> Plan:
    config = str(Path(folder) / SSH_CONFIG)
    if " " in config:
        raise UsageError(f"mpirun cannot be told of a file with a space in its name: {config}", "set TMPDIR elsewhere")
    argv = commands.mpirun(job, ssh_config=config, tagged=not raw, as_root=as_root)
    return Plan("mpirun", [Command("", "mpirun", argv, dict(job.env))], {SSH_CONFIG: ssh_config(reach.targets)})


def own_network(reach: Reach) -> str:
    """Over which mpirun's daemons find their way back to us; empty: they try all there are."""
    return towards(reach.targets[0].address) if reach.targets else ""


def starts(plan: Plan, reach: Reach, folder: Path) -> list[Start]:
    """Writes the plan's files; what to start where. InfraError for a launcher that is not here."""
    for command in plan.commands:
        if not command.host and shutil.which(command.argv[0]) is None:
            raise InfraError(f"there is no {command.argv[0]} on this machine", HOW_TO_HAVE.get(command.argv[0]))
    for name, text in plan.files.items():
        path = folder / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    return [_start(command, plan.launcher, reach) for command in plan.commands]


def _start(command: Command, launcher: str, reach: Reach) -> Start:
    host: Host = reach.hosts[command.host] if command.host else LocalHost()
    argv = command.argv if command.host else [*OWN_SESSION, *command.argv]
    reader: Reader = {"mpirun": Tagged, "srun": Labelled}.get(launcher, Whole)()
    if command.rank is not None:
        reader = Whole(command.rank)
    return Start(command.shown, host, argv, command.env, reader, command.rank)


def as_root() -> bool:
    return os.geteuid() == 0
