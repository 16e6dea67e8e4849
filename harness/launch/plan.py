"""From a job and a launcher to the processes that are started."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from harness.errors import InfraError
from harness.hosts import Host, LocalHost
from harness.launch.job import Job
from harness.launch.launchers.launcher import Command, Launcher, Plan, Reach
from harness.launch.launchers.registry import launchers
from harness.launch.processes import Start


def plan(job: Job, launcher: str, reach: Reach, folder: str, *, raw: bool = False) -> Plan:
    """As the user that we are. `folder`: where files will be. `raw`: nothing is put before the ranks' lines."""
    return launchers()[launcher].plan(job, reach, folder, as_root=os.geteuid() == 0, raw=raw)


def starts(plan: Plan, hosts: Mapping[str, Host], folder: Path) -> list[Start]:
    """Writes the plan's files; what to start where. InfraError for a launcher that is not here."""
    launcher = launchers()[plan.launcher]
    for command in plan.commands:
        if not command.host and shutil.which(command.argv[0]) is None:
            raise InfraError(f"there is no {command.argv[0]} on this machine", launcher.how_to_have or None)
    for name, text in plan.files.items():
        path = folder / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    return [_start(command, launcher, hosts) for command in plan.commands]


def _start(command: Command, launcher: Launcher, hosts: Mapping[str, Host]) -> Start:
    host: Host = hosts[command.host] if command.host else LocalHost()
    reader = launcher.reader(command.rank)
    return Start(command.shown, host, command.argv, command.env, reader, command.rank, own_session=not command.host)
