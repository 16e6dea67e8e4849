"""How upstream's nccl-tests are started: one process here, or one a GPU under Open MPI."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.errors import UsageError
from harness.launch.job import Job
from harness.launch.launchers import mpirun as open_mpi
from harness.workloads.nccltests.spec import BY_LINE, Spec, one_of_many, program

HOST = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")


def plain(spec: Spec) -> list[str]:
    """One process with all GPUs of this host; there is no way to have more without MPI."""
    return [*BY_LINE, *program(spec, spec.gpus)]


def mpirun(
    spec: Spec, hosts: Sequence[str], names: Iterable[str], *, preload: Path | None = None, as_root: bool = False
) -> list[str]:
    """One process a GPU under Open MPI 4; `names` of variables go to all of them with the values that mpirun has.

    The library is preloaded into the programs, not into mpirun. UsageError for what is no host name.
    """
    wrong = [host for host in hosts if not HOST.match(host)]
    if wrong or not hosts:
        raise UsageError(f"not a host name: {', '.join(map(repr, wrong)) or 'none was given'}", "--mpi node1,node2")
    slots = {host: spec.gpus * list(hosts).count(host) for host in hosts}
    job = Job(one_of_many(spec), slots, "", preload=str(preload or ""), told=(), mpi=True)
    return open_mpi.command(job, names=names, as_root=as_root)
