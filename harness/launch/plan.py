"""From a job and a launcher to the processes that are started."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from harness.errors import CommandError, InfraError
from harness.hosts import Host, LocalHost
from harness.launch.hosts import JobHosts
from harness.launch.job import Job
from harness.launch.launchers.launcher import Command, Launcher, Plan, Reach
from harness.launch.launchers.registry import launchers
from harness.launch.processes import Start
from harness.launch.workloads import ROOT_PORT, Asked


def plan(job: Job, launcher: str, reach: Reach, folder: str, *, raw: bool = False) -> Plan:
    """As the user that we are. `folder`: where files will be. `raw`: nothing is put before the ranks' lines."""
    return launchers()[launcher].plan(job, reach, folder, as_root=os.geteuid() == 0, raw=raw)


FREE_PORT = """
import random, socket, sys
for port in random.sample(range(20000, 29000), 200):
    try:
        with socket.socket() as probe:
            probe.bind(("", port))
    except OSError:
        continue
    if str(port) not in sys.argv[1:]:
        print(port)
        break
"""
"""Of ports that no kernel gives to a connection by itself, so that it is still free when the job takes it."""
LOOK_S = 30.0


def free_port(host: Host, python: str, name: str, whose: str, *, but: str = "") -> int:
    """Of that host, which we call `name`; another one than `but`. InfraError where there is no free port; CommandError
    where the host cannot say."""
    said = host.run([python, "-c", FREE_PORT, but], timeout_s=LOOK_S).stdout.strip()
    if not said.isdecimal():
        raise InfraError(f"{name} has no free port where {whose} could meet", "on that host: ss -ltn")
    return int(said)


def met(job: Job, launcher: str, hosts: Mapping[str, Host]) -> Job:
    """The job with a port for its launcher's own processes that is free on the first host: another job may hold any
    fixed one. As `free_port`."""
    if not launchers()[launcher].meets:
        return job
    first = next(iter(job.hosts))
    ranks_port = job.rendezvous.rpartition(":")[2]
    return replace(job, meeting=free_port(hosts[first], job.python, first, f"{launcher}'s processes", but=ranks_port))


def ranks_port(asked: Asked, site: JobHosts) -> int:
    """A port for the ranks that is free on the first host, as another job may hold any fixed one. The usual port where
    that host cannot say: only Slurm reaches it, or it has no Python. InfraError where no port is free."""
    first = site.names[0]
    if first not in site.hosts:
        return ROOT_PORT
    try:
        return free_port(site.hosts[first], asked.python, first, "ranks")
    except CommandError:
        return ROOT_PORT


def starts(plan: Plan, hosts: Mapping[str, Host], folder: Path) -> list[Start]:
    """Writes the plan's files; what to start where. InfraError for a launcher that is not here."""
    launcher = launchers()[plan.launcher]
    for command in plan.commands:
        if not command.host and shutil.which(command.argv[0]) is None:
            raise InfraError(f"there is no {command.argv[0]} on this machine", launcher.how_to_have or None)
    launcher.check()
    for name, text in plan.files.items():
        path = folder / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    return [_start(command, launcher, hosts) for command in plan.commands]


def _start(command: Command, launcher: Launcher, hosts: Mapping[str, Host]) -> Start:
    host: Host = hosts[command.host] if command.host else LocalHost()
    reader = launcher.reader(command.rank)
    return Start(command.shown, host, command.argv, command.env, reader, command.rank, own_session=not command.host)
