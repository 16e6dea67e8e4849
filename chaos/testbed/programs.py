"""Whether programs of others that a workload needs are there, and can span hosts."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from chaos.experiment.model import Experiment
from harness.errors import UsageError
from harness.hosts import Host, LocalHost
from harness.hosts.parallel import on_all
from harness.sites.cluster import ClusterSite
from harness.sites.site import Site
from harness.workloads.kinds.nccl_tests import FOLDER, NcclTests

LOOK_S = 20.0
LACKING, ALONE = 3, 4
LOOK = f'[ -x "$1" ] || exit {LACKING}; head -c 4 "$1" | grep -qa ELF || exit 0; grep -qa MPI_Init "$1" || exit {ALONE}'
"""A fixed script: whether a program can be run, and whether it knows of MPI. What is no ELF file is taken as it is."""


def check_programs(site: Site, experiment: Experiment) -> None:
    """UsageError for what is not there, or was built without MPI, on any host; all hosts of a lab are this machine."""
    workload = experiment.workload
    if not isinstance(workload, NcclTests):
        return
    hosts = site.hosts() if isinstance(site, ClusterSite) else {"this machine": LocalHost()}
    found = on_all({name: partial(_looked, host, workload.program) for name, host in hosts.items()})
    for outcome in found.values():
        if outcome.error is not None:
            raise outcome.error
    codes = {name: outcome.value for name, outcome in found.items()}
    if lacking := [name for name, code in codes.items() if code == LACKING]:
        raise UsageError(
            f"there is no program {workload.program} on {', '.join(lacking)}",
            f"build nccl-tests with MPI (r2cc build nccl-tests --mpi DIR), or say where: workload.programs, {FOLDER}",
        )
    if alone := [name for name, code in codes.items() if code == ALONE]:
        raise UsageError(
            f"{workload.program} on {', '.join(alone)} was built without MPI: its ranks cannot meet across hosts",
            "build it with MPI: r2cc build nccl-tests --mpi DIR, or upstream's make MPI=1 MPI_HOME=DIR",
        )


def _looked(host: Host, program: Path) -> int:
    return host.run(["sh", "-c", LOOK, "r2cc", str(program)], timeout_s=LOOK_S, check=False).exit_code
