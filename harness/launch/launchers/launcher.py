"""What a launcher is: it makes command lines of a job, and understands what is said when it runs. Pure."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

from harness.launch.job import Job
from harness.launch.streams import Reader, Whole
from harness.schemas.form import form

if TYPE_CHECKING:
    from harness.hosts.ssh.target import Target

SHOWN = ("NCCL_", "R2CC_", "GLOO_", "CUDA_", "SLURM_")
"""What else the user hands over may be a secret."""


class Reach(Protocol):
    """How OpenSSH reaches the hosts, for a launcher that does so itself."""

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


@dataclass(frozen=True)
class Death:
    """A rank that ended badly. `code` of one that a signal ended is negative, as in subprocess; None where nobody
    says."""

    rank: int
    code: int | None


class Launcher(ABC):
    """One way to start the ranks of a job."""

    how_to_have: ClassVar[str] = ""
    """What to do where its program is not on this machine."""
    allocated: ClassVar[bool] = False
    """It starts ranks in the Slurm allocation that we are in, and nowhere else."""
    daemons: ClassVar[bool] = False
    """It starts daemons on the hosts by ssh, which connect back to it."""
    meets: ClassVar[bool] = False
    """Its own processes meet at a port of the first host (`Job.meeting`), besides the ranks'."""
    of_torch: ClassVar[bool] = False
    """It is a program of torch's, on every host."""
    in_labs: ClassVar[bool] = False
    """It can start ranks on a lab's hosts, too (`Job.inside`)."""

    @abstractmethod
    def plan(self, job: Job, reach: Reach, folder: str, *, as_root: bool = False, raw: bool = False) -> Plan:
        """`folder`: where the plan's files will be. `raw`: nothing is put before the ranks' lines. UsageError for a
        job that it cannot start."""

    def check(self) -> None:
        """InfraError for a program of that name that is another one."""
        return

    def reader(self, rank: int | None) -> Reader:
        """What tells whose line is whose, of a command of the plan; `rank`: it is one rank alone."""
        return Whole(rank)

    def first_death(self, said: str) -> Death | None:
        """The rank that was the first to end badly, from what it said on stderr; None when it does not say."""
        return None

    def of_rank(self, said: str, rank: int) -> str:
        """What one rank said on stderr; all of it, where lines do not say whose they are."""
        lines = self.reader(None)(said.encode() + b"\n")
        return "\n".join(text.decode(errors="replace") for who, text in lines if who == rank and text) or said
