"""Open MPI 4: one mpirun here, which starts a daemon on each host by ssh."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import InfraError, UsageError
from harness.lab.remote import Inside
from harness.launch.job import Job
from harness.launch.launchers.launcher import Command, Death, Launcher, Plan, Reach
from harness.launch.launchers.sshfiles import ssh_config
from harness.launch.streams import Line, Reader, Whole

SSH_CONFIG = "ssh_config"
LAB_SHELL = "lab_shell"
OTHERS = "slurm,tm,lsf,gridengine,alps,loadleveler"
"""Parts of Open MPI that would take hosts from a batch system's variables."""
TAG = re.compile(rb"\[\d+,(\d+)\]<(?:stdout|stderr|stddiag)>:")
LONGEST_TAG = 48
FOREIGN = re.compile(r"HYDRA|MPICH|MVAPICH|Intel\(R\) MPI")
"""What the mpirun of other MPIs says of its version."""
LOOK_S = 20.0
HOW_TO_PUT_IT_FIRST = (
    "put Open MPI first in PATH; on Debian: sudo update-alternatives --set mpirun /usr/bin/mpirun.openmpi"
)
FIRST_EXIT = re.compile(r"Process name: \[\[\d+,\d+\],(\d+)\]\s+Exit code: +(\d+)")
BY_SIGNAL = re.compile(r"process rank (\d+) with PID \d+ on node \S+ exited on signal (\d+)")


class Mpirun(Launcher):
    """In a lab mpirun runs on the first host. Variables go by name, with the values that mpirun has."""

    how_to_have = "sudo apt-get install openmpi-bin, here and on all hosts, in one version"
    daemons = True
    in_labs = True

    def plan(self, job: Job, reach: Reach, folder: str, *, as_root: bool = False, raw: bool = False) -> Plan:
        config = str(Path(folder) / SSH_CONFIG)
        if " " in config:
            raise UsageError(f"mpirun takes no file with a space in its name: {config}", "set TMPDIR elsewhere")
        if job.inside is not None:
            argv = command(job, ways=_inside(job, job.inside, folder), tagged=not raw, as_root=True)
            files = {LAB_SHELL: job.inside.shell}
            return Plan("mpirun", [Command(next(iter(job.hosts)), "mpirun", argv, dict(job.env))], files)
        argv = command(job, ways=_by_ssh(config), tagged=not raw, as_root=as_root)
        return Plan("mpirun", [Command("", "mpirun", argv, dict(job.env))], {SSH_CONFIG: ssh_config(reach.targets)})

    def check(self) -> None:
        check()

    def reader(self, rank: int | None) -> Reader:
        return Tagged() if rank is None else Whole(rank)

    def first_death(self, said: str) -> Death | None:
        if found := FIRST_EXIT.search(said):
            return Death(int(found[1]), int(found[2]))
        found = BY_SIGNAL.search(said)
        return Death(int(found[1]), -int(found[2])) if found else None


def check() -> None:
    """InfraError where `mpirun` is another MPI's: our words are not theirs. Other versions of Open MPI are tried."""
    try:
        said = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, timeout=LOOK_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return  # what is wrong with it, it says when it is started
    if found := FOREIGN.search(said.stdout):
        raise InfraError(f"the mpirun on this machine is not Open MPI's: it says {found[0]}", HOW_TO_PUT_IT_FIRST)


def command(
    job: Job,
    *,
    names: Iterable[str] | None = None,
    ways: Sequence[str] = (),
    tagged: bool = False,
    as_root: bool = False,
) -> list[str]:
    """`names`: variables that go to all ranks, else the job's. `ways`: how its daemons are started and talk."""
    known = job.inside.addresses if job.inside is not None else {}
    return [
        "mpirun",
        *(["--allow-run-as-root"] if as_root else []),
        *(
            "-np",
            str(job.ranks),
            "-H",
            ",".join(f"{known.get(host, host)}:{ranks}" for host, ranks in job.hosts.items()),
        ),
        *("--map-by", "slot", "--bind-to", "none"),
        *ways,
        *(["--mca", "oob_tcp_if_include", job.out_of_band] if job.out_of_band else []),
        *(["--mca", "btl_tcp_if_include", job.out_of_band] if job.out_of_band and job.mpi else []),
        *(["--tag-output"] if tagged else []),
        *(word for name in sorted(set(job.env if names is None else names)) for word in ("-x", name)),
        *job.by_itself("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ]


def _by_ssh(config: str) -> list[str]:
    return [*("--mca", "plm", "rsh", "--mca", "plm_rsh_agent", "ssh"), *("--mca", "plm_rsh_args", f"-F {config}")]


def _inside(job: Job, inside: Inside, folder: str) -> list[str]:
    """Hosts are given by address: where names lead nowhere, or all to one place, Open MPI takes all for its own host.

    Under a batch system's variables it would know that system's hosts alone. MPI's own traffic keeps off data NICs.
    """
    settings = {
        "ras": f"^{OTHERS}",
        "plm": "rsh",
        "plm_rsh_agent": f"sh {Path(folder) / LAB_SHELL}",
        "plm_rsh_no_tree_spawn": "1",
        "oob_tcp_if_include": inside.network,
    }
    if job.mpi:
        settings |= {"pml": "ob1", "btl": "self,vader,tcp", "btl_tcp_if_include": inside.network}
        settings["btl_vader_single_copy_mechanism"] = "none"
    return [word for name, value in settings.items() for word in ("--mca", name, value)]


@dataclass
class Tagged:
    """`mpirun --tag-output`: a tag where a line begins, and wherever mpirun's own buffer began anew, amid a line."""

    rest: bytes = b""
    speaker: int | None = None
    parts: dict[int | None, bytes] = field(default_factory=dict)

    def __call__(self, chunk: bytes) -> list[Line]:
        text = self.rest + (chunk or b"\n")
        held = text.rfind(b"[", max(0, len(text) - LONGEST_TAG))
        cut = len(text) if held < 0 or TAG.match(text, held) or b"\n" in text[held:] else held
        text, self.rest = text[:cut], text[cut:]
        lines, at = [], 0
        for tag in TAG.finditer(text):
            lines += self._said(text[at : tag.start()])
            self.speaker, at = int(tag[1]), tag.end()
        return lines + self._said(text[at:])

    def _said(self, text: bytes) -> list[Line]:
        lines: list[Line] = []
        while text:
            line, end, text = text.partition(b"\n")
            whole = self.parts.pop(self.speaker, b"") + line
            if end:
                lines.append((self.speaker, whole.rstrip(b"\r")))
                self.speaker = None
            else:
                self.parts[self.speaker] = whole
        return lines
