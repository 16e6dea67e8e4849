"""From a job and a launcher to the processes that are started."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from harness.errors import InfraError
from harness.hosts import Host, LocalHost
from harness.launch.job import Job
from harness.launch.launchers.launcher import Command, Launcher, Plan, Reach
from harness.launch.launchers.registry import launchers
from harness.launch.processes import Start


class Hosts(Protocol):
    """Hosts to start processes on."""

    @property
    def hosts(self) -> Mapping[str, Host]: ...


def plan(job: Job, launcher: str, reach: Reach, folder: str, *, as_root: bool = False, raw: bool = False) -> Plan:
    """`folder`: where files will be. `raw`: the launcher puts nothing before the ranks' lines."""
    return launchers()[launcher].plan(job, reach, folder, as_root=as_root, raw=raw)


def starts(plan: Plan, reach: Hosts, folder: Path) -> list[Start]:
    """Writes the plan's files; what to start where. InfraError for a launcher that is not here."""
    launcher = launchers()[plan.launcher]
    for command in plan.commands:
        if not command.host and shutil.which(command.argv[0]) is None:
            raise InfraError(f"there is no {command.argv[0]} on this machine", launcher.how_to_have or None)
    for name, text in plan.files.items():
        path = folder / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    return [_start(command, launcher, reach) for command in plan.commands]


def _start(command: Command, launcher: Launcher, reach: Hosts) -> Start:
    host: Host = reach.hosts[command.host] if command.host else LocalHost()
    reader = launcher.reader(command.rank)
    return Start(command.shown, host, command.argv, command.env, reader, command.rank, own_session=not command.host)


def as_root() -> bool:
    return os.geteuid() == 0
