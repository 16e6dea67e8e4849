"""Our own connections: each rank is started by itself."""

from __future__ import annotations

from harness.launch.job import Job
from harness.launch.launchers.launcher import Command, Launcher, Plan, Reach


class Ssh(Launcher):
    """No launcher: one command of each rank, on its host."""

    def plan(self, job: Job, reach: Reach, folder: str, *, as_root: bool = False, raw: bool = False) -> Plan:
        made = []
        for rank in range(job.ranks):
            host = job.host_of(rank)
            env = {**job.env, **job.of_host.get(host, {}), **job.of_rank.get(rank, {})}
            made.append(Command(host, f"rank {rank} on {host}", job.as_rank(rank), env, rank))
        return Plan("ssh", made)
