"""torchrun: one on each host, by our own connections."""

from __future__ import annotations

import re

from harness.errors import UsageError
from harness.launch.job import Job
from harness.launch.launchers.launcher import Command, Death, Launcher, Plan, Reach
from harness.launch.streams import Labelled, Reader, Whole

MONITOR_S = "0.5"
"""How often torchrun looks at its ranks; older versions wait for 5 s."""
DEATH = re.compile(r"rank\s*: (\d+) \(local_rank: \d+\)\s+exitcode\s*: (-?\d+)")
LABEL = re.compile(rb"^r2cc:(\d+):")
OWN_LINE = re.compile(r"^.*torch[./]distributed[./]elastic.*$", re.MULTILINE)


class Torchrun(Launcher):
    """The program need not be Python; the job's Python has torch on every host."""

    meets = True
    of_torch = True

    def plan(self, job: Job, reach: Reach, folder: str, *, as_root: bool = False, raw: bool = False) -> Plan:
        made = [Command(host, f"torchrun on {host}", command(job, host), dict(job.env)) for host in job.hosts]
        return Plan("torchrun", made)

    def reader(self, rank: int | None) -> Reader:
        return Labelled(LABEL) if rank is None else Whole(rank)

    def first_death(self, said: str) -> Death | None:
        """What it calls the root cause."""
        found = DEATH.search(said[said.rfind("Root Cause") :] if "Root Cause" in said else said)
        return Death(int(found[1]), int(found[2])) if found else None

    def of_rank(self, said: str, rank: int) -> str:
        """Lines do not say whose they are: all that was said before torchrun itself began to speak."""
        return OWN_LINE.split(said, maxsplit=1)[0].strip() or said


def command(job: Job, host: str) -> list[str]:
    """Underscores, which all versions take; torchrun reads `$` in the program's words as string.Template does.
    UsageError where hosts have not as many ranks."""
    if not job.even:
        raise UsageError("torchrun wants as many ranks on every host", "--ranks-per-host N")
    address = job.rendezvous.rpartition(":")[0]
    return [
        *(job.python, "-m", "torch.distributed.run"),
        *("--nnodes", str(len(job.hosts)), "--nproc_per_node", str(job.hosts[host])),
        *("--node_rank", str(list(job.hosts).index(host)), "--rdzv_backend", "static"),
        *("--rdzv_endpoint", f"{address}:{job.meeting}", "--max_restarts", "0"),
        *("--monitor_interval", MONITOR_S, "--no_python"),
        *(word.replace("$", "$$") for word in job.by_itself("RANK", "LOCAL_RANK", labelled=job.says_pid)),
    ]
