"""A real Slurm with its own key, configuration and state, whose daemons end with the test."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

SBIN = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
PROGRAMS = ("munged", "slurmctld", "slurmd", "salloc", "srun")
LIMIT_S = 60.0
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "slurm.md"
NEEDS = [
    pytest.mark.slow,
    pytest.mark.build,
    pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's daemons need root"),
    pytest.mark.skipif(
        any(shutil.which(program, path=SBIN) is None for program in PROGRAMS),
        reason="no Slurm (apt-get install --no-install-recommends slurmctld slurmd slurm-client munge)",
    ),
]
CONFIGURATION = """
ClusterName=r2cc
SlurmctldHost={host}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldPort={port}
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SwitchType=switch/none
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def configured(folder: Path, host: str, address: str, port: int, nodes: str) -> list[str]:
    """Writes key and configuration into `folder`. What starts munged, which makes `munge.sock`."""
    (folder / "state").mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    text = CONFIGURATION.format(host=host, address=address, folder=folder, port=port, nodes=nodes)
    (folder / "slurm.conf").write_text(text)
    files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
    return ["munged", "--foreground", "--force", f"--socket={folder}/munge.sock", *files]


def controller(folder: Path) -> list[str]:
    return ["slurmctld", "-D", "-c", "-f", f"{folder}/slurm.conf"]


def node(folder: Path, name: str) -> list[str]:
    return ["slurmd", "-D", "-N", name, "-f", f"{folder}/slurm.conf"]


def scripts_of_the_page() -> dict[str, str]:
    """Those that slurm.conf names, by their names, as docs/howto/slurm.md has them."""
    found = re.findall(
        r"(?m)^`(r2cc-[a-z-]+)`(?:[^\n]+\n)+\n```text\n(#!/bin/sh\n(?:[^`][^\n]*\n)+)```", PAGE.read_text()
    )
    assert [name for name, _ in found] == ["r2cc-prolog", "r2cc-task-prolog", "r2cc-epilog", "r2cc-health"]
    return dict(found)


def await_true(holds: Callable[[], bool], what: str, limit_s: float = LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, f"{what} does not come up"
        time.sleep(0.05)
