"""Each workload as a job: its program, its environment, and how its ranks learn who they are. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.errors import UsageError
from harness.launch.hosts import BASE_ENV, JobHosts
from harness.launch.job import GPU_OPTION, RANK_OPTION, Job, split
from harness.workloads.bench import MODES, SETTINGS, BenchSpec, bench_command, stray_settings

ROOT_PORT = 29500
TORCH_KINDS = ("collectives", "ddp", "megatron", "decode")
KINDS = ("bench", "nccl-tests", *TORCH_KINDS)
TOOLKIT = ("R2CC_NCCL_SOURCE", "R2CC_PYTHON", "R2CC_DEBUG", "R2CC_CI_STARTED")
"""Ours, and nobody else's on the hosts."""
IMPOSSIBLE: Mapping[tuple[str, str], tuple[str, str]] = {
    ("bench", "torchrun"): (
        "the host bench is no Python program, and its hosts need not have torch: torchrun cannot start it there",
        "--launcher ssh, mpirun or srun",
    ),
    ("nccl-tests", "ssh"): (
        "ranks of nccl-tests meet through MPI alone: started one by one over SSH, each would run by itself",
        "--launcher mpirun or srun",
    ),
    ("nccl-tests", "torchrun"): (
        "ranks of nccl-tests meet through MPI alone: under torchrun each would run by itself",
        "--launcher mpirun or srun",
    ),
}


@dataclass(frozen=True)
class Asked:
    """What the user wants to run, besides where."""

    kind: str
    mode: int = 2
    ranks_per_host: int | None = None
    iterations: int = 20
    warmup: int = 2
    bytes: int = 64 << 20
    seed: int = 1
    timeout_s: int = 120
    python: str = "python3"
    cpu: bool = False
    """gloo on CPUs: to try the launch itself."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Settings of a workload on torch."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Of all ranks; wins over everything."""
    corrupt: str = ""
    root: str | None = None
    port: int = ROOT_PORT
    out_of_band: str = ""


def check(kind: str, launcher: str) -> None:
    """UsageError, which says why, for a workload that a launcher cannot start."""
    if (kind, launcher) in IMPOSSIBLE:
        raise UsageError(*IMPOSSIBLE[kind, launcher])


def inherited_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What the caller's shell sets of NCCL and R2CC, which goes to all ranks."""
    return {name: value for name, value in environment.items() if name.startswith(SETTINGS) and name not in TOOLKIT}


def job(asked: Asked, site: JobHosts, inherited: Mapping[str, str]) -> Job:
    """The job on that site, but for what nccl-tests are told, which is nccltests.py's. UsageError for a mode that does
    not exist, and for hosts with different numbers of ranks where a workload cannot have that."""
    if asked.mode not in MODES:
        raise UsageError(f"R2CC_MODE {asked.mode} does not exist", "0 stock, 1 migrate, 2 balance, 3 allreduce")
    hosts = _ranks(asked, site)
    common, own = split(_of_host(asked, site), list(hosts))
    base = {} if asked.kind == "nccl-tests" else BASE_ENV  # its rows are for people
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
    if asked.kind == "bench":
        return replace(made, program=_bench(asked, site, made))
    if asked.kind == "nccl-tests":
        return replace(made, mpi=True, told=(), preload=str(site.programs.nccl))
    return _torch(asked, site, made)


def _ranks(asked: Asked, site: JobHosts) -> dict[str, int]:
    if asked.ranks_per_host is not None:
        return dict.fromkeys(site.names, asked.ranks_per_host)
    if site.allocation is not None and site.allocation.tasks is not None:
        return {name: site.allocation.tasks[name] for name in site.names}
    return dict.fromkeys(site.names, 1 if asked.kind == "bench" else site.gpus or 1)


def _of_host(asked: Asked, site: JobHosts) -> dict[str, dict[str, str]]:
    """The host bench knows hosts of the lab by their own names."""
    drop = ("NCCL_HOSTID", "CUDA_VISIBLE_DEVICES", "GLOO_SOCKET_IFNAME") if asked.kind == "bench" and site.lab else ()
    return {
        host: {name: value for name, value in each.items() if name not in drop} for host, each in site.of_host.items()
    }


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _bench(asked: Asked, site: JobHosts, made: Job) -> tuple[str, ...]:
    if made.ranks < 2:
        raise UsageError("the host bench needs two ranks or more", "--ranks-per-host 2, or more hosts")
    corrupt = tuple(map(int, asked.corrupt.split(":"))) if asked.corrupt else None
    spec = BenchSpec(
        bytes=asked.bytes, iterations=asked.iterations, warmup=asked.warmup, seed=asked.seed,
        timeout_s=asked.timeout_s, corrupt=(corrupt[0], corrupt[1]) if corrupt else None,
    )  # fmt: skip
    programs = site.programs
    return tuple(
        bench_command(programs.bench, spec, rank=None, ranks=made.ranks, root=made.rendezvous, library=programs.net)
    )


def _torch(asked: Asked, site: JobHosts, made: Job) -> Job:
    if not made.even:
        raise UsageError(f"{asked.kind} wants as many ranks on every host", "--ranks-per-host N")
    options: dict[str, object] = {
        "--ranks": made.ranks,
        "--root": made.rendezvous,
        "--per-host": next(iter(made.hosts.values())),
        "--iterations": asked.iterations,
        "--warmup": asked.warmup,
        "--timeout-s": asked.timeout_s,
        "--seed": asked.seed,
        **({"--corrupt": asked.corrupt} if asked.corrupt else {}),
        "--spec": json.dumps(dict(asked.spec), sort_keys=True),
    }
    words = [str(word) for option in options.items() for word in option]
    program = (asked.python, str(site.programs.rank), asked.kind, *words)
    told = (RANK_OPTION,) if asked.cpu else (RANK_OPTION, GPU_OPTION)
    return replace(made, program=program, told=told, preload="" if asked.cpu else str(site.programs.nccl))
