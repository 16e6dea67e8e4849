"""Slurm, inside an allocation: one srun here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from harness.launch.job import Job
from harness.launch.launchers.launcher import Command, Death, Launcher, Plan, Reach
from harness.launch.streams import Labelled, Reader, Whole
from harness.launch.tally import BROKEN, WRONG
from harness.workloads.bench import SETTINGS

HOSTFILE = "hostfile"
LABEL = re.compile(rb"^ *(\d+): ?")
"""`srun --label`."""
ONLY = (
    'told=" "; while [ "$1" != -- ]; do told="$told$1 "; shift; done; shift; '
    "for name in $(env | sed -n 's/^\\(NCCL_[A-Za-z0-9_]*\\)=.*/\\1/p; s/^\\(R2CC_[A-Za-z0-9_]*\\)=.*/\\1/p'); do "
    'case $told in *" $name "*) ;; *) unset "$name" ;; esac; done; exec "$@"'
)
"""A site's TaskProlog may set variables for every task. Its arguments: those that a rank is to have, `--`, the program.
The others are the measured program's no more than those which a login sets."""
TASK = re.compile(r"error: (?P<host>\S+): tasks? (?P<rank>\d+)[^:]*: (?P<how>Exited with exit code (?P<code>\d+)|.+)")
SIGNALS = {"Killed": 9, "Terminated": 15, "Segmentation fault": 11, "Aborted": 6, "Bus error": 7}


class Srun(Launcher):
    """Its environment goes to all ranks; uneven ranks are placed by SLURM_HOSTFILE."""

    how_to_have = "run it where Slurm's client programs are"
    allocated = True

    def plan(self, job: Job, reach: Reach, folder: str, *, as_root: bool = False, raw: bool = False) -> Plan:
        env, files = dict(job.env), {}
        if not job.even:
            files[HOSTFILE] = "".join(f"{host}\n" * ranks for host, ranks in job.hosts.items())
            env["SLURM_HOSTFILE"] = str(Path(folder) / HOSTFILE)
        return Plan("srun", [Command("", "srun", command(job, env, labelled=not raw), env)], files)

    def reader(self, rank: int | None) -> Reader:
        return Labelled(LABEL) if rank is None else Whole(rank)

    def first_death(self, said: str) -> Death | None:
        """srun names all that ended badly, those that a peer's death ended among them."""
        deaths = [_death(found) for found in TASK.finditer(said)]
        return next((death for death in deaths if death.code not in (WRONG, BROKEN)), deaths[0] if deaths else None)


def command(job: Job, env: Mapping[str, str], *, labelled: bool = False) -> list[str]:
    placed = [f"--ntasks-per-node={max(job.hosts.values())}", f"--nodelist={','.join(job.hosts)}"]
    return [
        "srun",
        *(f"--nodes={len(job.hosts)}", f"--ntasks={job.ranks}"),
        *([*placed, "--distribution=block"] if job.even else ["--distribution=arbitrary"]),
        *("--kill-on-bad-exit=1", "--overlap", "--cpu-bind=none", f"--mpi={'pmix' if job.mpi else 'none'}"),
        *("--export=ALL", *(["--label"] if labelled else [])),
        *("sh", "-c", ONLY, "r2cc", *sorted(name for name in env if name.startswith(SETTINGS)), "--"),
        *job.by_itself("SLURM_PROCID", "SLURM_LOCALID"),
    ]


def _death(found: re.Match[str]) -> Death:
    number = next((number for name, number in SIGNALS.items() if found["how"].startswith(name)), None)
    code = int(found["code"]) if found["code"] else None if number is None else -number
    return Death(int(found["rank"]), code)
