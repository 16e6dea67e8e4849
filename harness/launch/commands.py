"""The launchers: each a pure function from a job to a command line."""

from __future__ import annotations

from collections.abc import Iterable

from harness.errors import UsageError
from harness.launch.job import Job

TORCHRUN_PORT = 29400
"""Where torchrun's own processes meet; ranks meet at the job's rendezvous, which must be free for rank 0."""
MONITOR_S = "0.5"
"""How often torchrun looks at its ranks; older versions wait for 5 s."""
LAUNCHERS = ("ssh", "mpirun", "srun", "torchrun")


def mpirun(
    job: Job, *, names: Iterable[str] | None = None, ssh_config: str = "", tagged: bool = False, as_root: bool = False
) -> list[str]:
    """Open MPI 4. Variables go by name, with the values that mpirun has; its daemons are started by `ssh -F FILE`."""
    return [
        "mpirun",
        *(["--allow-run-as-root"] if as_root else []),
        *("-np", str(job.ranks), "-H", ",".join(f"{host}:{ranks}" for host, ranks in job.hosts.items())),
        *("--map-by", "slot", "--bind-to", "none"),
        *(_by_ssh(ssh_config) if ssh_config else []),
        *(["--mca", "oob_tcp_if_include", job.out_of_band] if job.out_of_band else []),
        *(["--mca", "btl_tcp_if_include", job.out_of_band] if job.out_of_band and job.mpi else []),
        *(["--tag-output"] if tagged else []),
        *(word for name in sorted(set(job.env if names is None else names)) for word in ("-x", name)),
        *job.by_itself("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ]


def _by_ssh(config: str) -> list[str]:
    return [*("--mca", "plm", "rsh", "--mca", "plm_rsh_agent", "ssh"), *("--mca", "plm_rsh_args", f"-F {config}")]


def srun(job: Job, *, labelled: bool = False) -> list[str]:
    """Slurm, inside an allocation. Its environment goes to all ranks; uneven ranks are placed by SLURM_HOSTFILE."""
    placed = [f"--ntasks-per-node={max(job.hosts.values())}", f"--nodelist={','.join(job.hosts)}"]
    return [
        "srun",
        *(f"--nodes={len(job.hosts)}", f"--ntasks={job.ranks}"),
        *([*placed, "--distribution=block"] if job.even else ["--distribution=arbitrary"]),
        *("--kill-on-bad-exit=1", "--overlap", "--cpu-bind=none", f"--mpi={'pmix' if job.mpi else 'none'}"),
        *("--export=ALL", *(["--label"] if labelled else [])),
        *job.by_itself("SLURM_PROCID", "SLURM_LOCALID"),
    ]


def slurm_hostfile(job: Job) -> str:
    """For SLURM_HOSTFILE: the host of each rank, one a line."""
    return "".join(f"{host}\n" * ranks for host, ranks in job.hosts.items())


def torchrun(job: Job, host: str) -> list[str]:
    """One of each host. Underscores, which all versions take; UsageError where hosts have not as many ranks."""
    if not job.even:
        raise UsageError("torchrun wants as many ranks on every host", "--ranks-per-host N")
    address = job.rendezvous.rpartition(":")[0]
    return [
        *(job.python, "-m", "torch.distributed.run"),
        *("--nnodes", str(len(job.hosts)), "--nproc_per_node", str(job.hosts[host])),
        *("--node_rank", str(list(job.hosts).index(host)), "--rdzv_backend", "static"),
        *("--rdzv_endpoint", f"{address}:{TORCHRUN_PORT}", "--max_restarts", "0"),
        *("--monitor_interval", MONITOR_S, "--no_python"),
        *job.by_itself("RANK", "LOCAL_RANK"),
    ]


def plain(job: Job, rank: int) -> list[str]:
    """One of each rank, started by our own connection to its host."""
    return job.as_rank(rank)
