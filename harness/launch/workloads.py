"""Each workload as a job: its program, its environment, and how its ranks learn who they are. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.errors import UsageError
from harness.facts.environment import TOOLKIT
from harness.launch.hosts import BASE_ENV, JobHosts
from harness.launch.job import GPU_OPTION, RANK_OPTION, Job, split
from harness.launch.launchers.registry import launchers
from harness.sites.site import Site
from harness.sites.slurm import GPUS_HINT
from harness.workloads.bench import MODES, SETTINGS, stray_settings
from harness.workloads.kinds.registry import asked as asked_for
from harness.workloads.kinds.registry import kinds
from harness.workloads.kinds.workload import Place, Workload

ROOT_PORT = 29500
"""What a dry run shows where no port is given, and what is taken where the first host cannot say which one is free."""
NCCL_TESTS = "nccl-tests"
"""A program of its own, which prints rows: no kind of workload."""
IMPOSSIBLE: Mapping[str, tuple[str, str]] = {
    "ssh": (
        "ranks of nccl-tests meet through MPI alone: started one by one over SSH, each would run by itself",
        "--launcher mpirun or srun",
    ),
    "torchrun": (
        "ranks of nccl-tests meet through MPI alone: under torchrun each would run by itself",
        "--launcher mpirun or srun",
    ),
}
"""Launchers that cannot start nccl-tests."""


@dataclass(frozen=True)
class Asked:
    """What the user wants to run, besides where."""

    kind: str
    mode: int = 2
    ranks_per_host: int | None = None
    iterations: int = 20
    warmup: int = 2
    seed: int = 1
    timeout_s: int = 120
    python: str = "python3"
    cpu: bool = False
    """gloo on CPUs: to try the launch itself."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """The workload's own settings."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Of all ranks; wins over everything."""
    corrupt: str = ""
    root: str | None = None
    port: int = ROOT_PORT
    out_of_band: str = ""

    def workload(self) -> Workload | None:
        """None: nccl-tests. InputErrors with every setting that it does not understand."""
        if self.kind == NCCL_TESTS:
            return None
        common = {"iterations": self.iterations, "warmup": self.warmup, "timeout_s": float(self.timeout_s)}
        return asked_for(self.kind, self.spec, common)


def check(kind: str, launcher: str) -> None:
    """UsageError, which says why, for a workload that a launcher cannot start."""
    impossible = IMPOSSIBLE if kind == NCCL_TESTS else kinds()[kind].impossible
    if launcher in impossible:
        raise UsageError(*impossible[launcher])


def check_site(kind: str, launcher: str, site: Site) -> None:
    """UsageError for what needs torch on hosts that cannot have it, before any of them is started."""
    if site.may_have_torch:
        return
    if kind != NCCL_TESTS and kinds()[kind].on_gpus:
        hint = "--inventory lab, or hosts that have it (docs/howto/cluster.md)"
        raise UsageError(f"{kind} needs torch, and the guests of '{site}' have none", hint)
    if launchers()[launcher].of_torch:
        raise UsageError(
            f"{launcher} is a program of torch's, and the guests of '{site}' have no torch",
            "--launcher ssh, or --inventory lab",
        )


def inherited_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What the caller's shell sets of NCCL and R2CC, which goes to all ranks."""
    return {name: value for name, value in environment.items() if name.startswith(SETTINGS) and name not in TOOLKIT}


def job(asked: Asked, site: JobHosts, inherited: Mapping[str, str]) -> Job:
    """The job on that site, but for what nccl-tests are told, which is nccltests.py's. UsageError for a mode that does
    not exist, and for hosts with different numbers of ranks where a workload cannot have that."""
    if asked.mode not in MODES:
        raise UsageError(f"R2CC_MODE {asked.mode} does not exist", "0 stock, 1 migrate, 2 balance, 3 allreduce")
    workload = asked.workload()
    on_gpus = workload is None or workload.on_gpus
    hosts = _ranks(asked, site, on_gpus=on_gpus)
    common, own = split(_of_host(site, on_gpus=on_gpus), list(hosts))
    base = {} if workload is None else BASE_ENV  # its rows are for people
    env = {**base, **inherited_settings(inherited), "R2CC_MODE": str(asked.mode), **common, **asked.env}
    own = {host: {name: value for name, value in each.items() if name not in asked.env} for host, each in own.items()}
    known = {*env, *(name for each in own.values() for name in each)}
    made = Job(
        (),
        hosts,
        f"{_bracketed(asked.root or site.root)}:{asked.port}",
        env,
        own,
        tuple(stray_settings(dict.fromkeys(site.unset, ""), dict.fromkeys(known, ""))),
        python=asked.python,
        out_of_band=asked.out_of_band,
    )
    if workload is None:
        return replace(made, mpi=True, told=(), preload=str(site.programs.nccl))
    if workload.on_gpus and not made.even:
        raise UsageError(f"{asked.kind} wants as many ranks on every host", "--ranks-per-host N")
    programs = replace(site.programs, python=asked.python)
    per_host = next(iter(made.hosts.values()))
    place = Place(programs, made.ranks, made.rendezvous, per_host=per_host, seed=asked.seed, corrupt=asked.corrupt)
    made = replace(made, program=tuple(workload.command(place)))
    if not workload.on_gpus or asked.cpu:
        return replace(made, told=(RANK_OPTION,))
    return replace(made, told=(RANK_OPTION, GPU_OPTION), preload=str(site.programs.nccl))


def _ranks(asked: Asked, site: JobHosts, *, on_gpus: bool) -> dict[str, int]:
    if asked.ranks_per_host is not None:
        return dict.fromkeys(site.names, asked.ranks_per_host)
    if site.allocation is not None and site.allocation.tasks is not None:
        return {name: site.allocation.tasks[name] for name in site.names}
    if site.allocation is not None and on_gpus and site.gpus is None:
        raise UsageError(
            "Slurm's variables do not say how many GPUs each node has, and that is how many ranks it gets",
            f"{GPUS_HINT}; or --ranks-per-host N",
        )
    return dict.fromkeys(site.names, (site.gpus or 1) if on_gpus else 1)


def _of_host(site: JobHosts, *, on_gpus: bool) -> dict[str, dict[str, str]]:
    """What runs on the net library knows hosts of the lab by their own names."""
    drop = ("NCCL_HOSTID", "CUDA_VISIBLE_DEVICES", "GLOO_SOCKET_IFNAME") if site.lab and not on_gpus else ()
    return {
        host: {name: value for name, value in each.items() if name not in drop} for host, each in site.of_host.items()
    }


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
