"""What runs where: from an experiment and a bed to command lines. Pure; the runner and `--dry-run` share it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from chaos.experiment.aliases import environment
from chaos.experiment.model import MODES, RESTART, UPSTREAM, Experiment
from harness.hosts.ssh.target import Target
from harness.lab.remote import Inside
from harness.launch.gather import gathered
from harness.launch.job import Job
from harness.launch.launchers.network import own_network
from harness.launch.launchers.registry import launchers
from harness.vmlab.rdma import failover_env, rdma_env
from harness.workloads.bench import progress_env
from harness.workloads.kinds.workload import GpuWorkload, Place, Workload

ROOT_PORT = 29500
DIRECT = "direct"
PYTHON = "python3"
"""Of workloads on GPUs and of torchrun, unless another one is named."""
OURSELVES = (DIRECT, "ssh")
"""Launchers that are our own connections to the hosts."""
SAMPLES_MS, SAMPLES_EMULATED_MS = 10, 200
RESTART_AFTER = "R2CC_RESTART_AFTER_S"
"""A rank with it in its environment watches over the one that works (harness/workloads/restart.py)."""
MERGED_MAX = 4
"""NCCL_NET_MAX_DEVS_PER_NIC: how many NICs a virtual one may have."""
Lateness = tuple[int, int, int]
"""(rank, iteration, ms)."""


@dataclass(frozen=True)
class OneRank:
    """What a bench is told of a rank. `env` is what the arm sets; `late`: who enters which iteration how late."""

    rank: int
    ranks: int
    root: str
    seed: int
    env: Mapping[str, str]
    late: Sequence[Lateness] = ()
    merge_nics: int = 1
    per_host: int = 1


class Bench(Protocol):
    """How the workload's processes are started; harness.workloads.bench is the real one, tests have a double."""

    def rank(self, workload: Workload, one: OneRank) -> list[str]: ...
    def place(self, one: OneRank) -> Place: ...
    def under(self, names: Sequence[str]) -> dict[str, str]:
        """What puts libraries of ours under a rank, by the names of their files."""
        ...

    def env(self, mode: int, places_file: Path | None = None) -> dict[str, str]: ...
    def sampler(self, nics: Sequence[str], *, cpu: bool, interval_ms: int = 10) -> list[str]: ...
    def gpu_sampler(self, ranks: Sequence[int]) -> list[str]:
        """What watches the GPUs of these ranks, all of one host; empty where they have none."""
        ...


Benches = Bench | Mapping[str, Bench]
"""One for all hosts, or one of each where programs lie elsewhere on each."""


def bench_on(benches: Benches, host: str) -> Bench:
    return benches[host] if isinstance(benches, Mapping) else benches


@dataclass(frozen=True)
class Launch:
    """One process to start on one host."""

    host: str
    name: str
    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)

    def line(self) -> str:
        """As one would type it on that host."""
        assignments = [f"{key}={shlex.quote(value)}" for key, value in sorted(self.env.items())]
        return " ".join([*assignments, shlex.join(self.argv)])


def ranks(
    experiment: Experiment,
    arm: str,
    hosts: Sequence[str],
    root: str,
    bench: Benches,
    *,
    extra: Mapping[str, str] | None = None,
    places_file: Path | None = None,
    nics: Mapping[str, Sequence[str]] | None = None,
    gpus: int = 1,
    of_host: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Launch]:
    """One rank on each host, or one on each of its GPUs, in the hosts' order; an arm's own env wins.

    `root` is the address the ranks meet at; `gpus` how many each host has; `nics` their names by host; `of_host`
    what ranks are told on each of several machines, whose NICs have names of their own.
    """
    each = per_host(experiment, gpus)
    merge = min(most_nics(nics or {}), MERGED_MAX) if arm == UPSTREAM else 1
    env = {
        **(rdma_env() if experiment.workload.net == "ib" else {}),
        **(failover_env() if arm == UPSTREAM else {}),
        **_restarting(experiment, arm),
        **(extra or {}),
    }
    own = next(spec.env for name, spec in experiment.arms.items() if name == arm)
    if of_host:
        own = environment(own, nics or {})
    where = f"{root}:{ROOT_PORT}"
    late = [
        (fault.rank, fault.at.iteration or 0, round((fault.duration_s or 0) * 1000))
        for fault in experiment.faults
        if fault.by_workload and fault.rank is not None
    ]
    counted = experiment.workload.counts or any(fault.at.counted for fault in experiment.faults)
    launches = []
    for rank, host in enumerate(host for host in hosts for _ in range(each)):
        programs = bench_on(bench, host)
        theirs = {"NCCL_HOSTID": host, **of_host[host]} if of_host else _apart(experiment, host)
        mine = {**programs.env(MODES[arm], places_file), **env, **theirs, **own}
        mine |= _for_faults(experiment, rank, programs)
        one = OneRank(rank, len(hosts) * each, where, experiment.seed, mine, late, merge, each)
        place = programs.place(one)
        if counted:
            mine = {**progress_env(place.programs.progress), **mine}
        argv = programs.rank(experiment.workload, one)
        launches.append(Launch(host, f"rank{rank}", argv, experiment.workload.rank_env(mine, place)))
    return launches


def _for_faults(experiment: Experiment, rank: int, programs: Bench) -> dict[str, str]:
    """What this rank needs from its start, so that the timeline's faults can strike it."""
    libraries = dict.fromkeys(name for fault in experiment.faults for name in fault.libraries(rank))
    found = programs.under([*libraries]) if libraries else {}
    for fault in experiment.faults:
        found |= fault.rank_env(rank)
    return found


def job(
    planned: Sequence[Launch],
    root: str,
    launcher: str,
    targets: Sequence[Target],
    python: str,
    *,
    inside: Inside | None = None,
    mpi: bool = False,
) -> Job | None:
    """The ranks as one job for a launcher; None: we start each ourselves. UsageError where it could not start them.

    `python`: of a launcher that is a Python program. `inside`: the hosts are a lab's. `mpi`: ranks meet through it.
    """
    if launcher in OURSELVES:
        return None
    own = own_network(targets) if launchers()[launcher].daemons else ""
    return gathered(
        [each.host for each in planned],
        [each.argv for each in planned],
        [each.env for each in planned],
        rendezvous=f"{root}:{ROOT_PORT}",
        out_of_band=own,
        python=python,
        inside=inside,
        mpi=mpi,
    )


def _apart(experiment: Experiment, host: str) -> dict[str, str]:
    """Hosts of the lab share a kernel and its GPUs: NCCL is to take them for different machines."""
    return {"NCCL_HOSTID": f"lab-{host}"} if experiment.workload.uses_gpus else {}


def per_host(experiment: Experiment, gpus: int) -> int:
    """How many ranks a host has."""
    return experiment.workload.per_host(gpus)


def _restarting(experiment: Experiment, arm: str) -> dict[str, str]:
    workload = experiment.workload
    if arm != RESTART or not isinstance(workload, GpuWorkload):
        return {}
    return {RESTART_AFTER: f"{workload.restart_after_s:g}"}


def samplers(
    nics: Mapping[str, Sequence[str]], bench: Benches, net: str = "socket", *, every_cpu: bool = False, each: int = 1
) -> list[Launch]:
    """One sampler a host; the first one, or all (`every_cpu`), also watch their machine's CPU. In emulation samples
    cost: there are few. Hosts whose ranks use GPUs, `each` of them, get one more."""
    interval_ms = SAMPLES_EMULATED_MS if net == "ib" else SAMPLES_MS
    found = [
        Launch(host, f"sampler-{host}", _sampler(bench, host, names, cpu=every_cpu or index == 0, ms=interval_ms))
        for index, (host, names) in enumerate(nics.items())
    ]
    gpus = [
        Launch(host, f"gpu-sampler-{host}", bench_on(bench, host).gpu_sampler(range(index * each, (index + 1) * each)))
        for index, host in enumerate(nics)
    ]
    return [*found, *(launch for launch in gpus if launch.argv)]


def _sampler(benches: Benches, host: str, names: Sequence[str], *, cpu: bool, ms: int) -> list[str]:
    return bench_on(benches, host).sampler(names, cpu=cpu, interval_ms=ms)


def most_nics(nics: Mapping[str, Sequence[str]]) -> int:
    """How many NICs the host with most of them has."""
    return max((len(names) for names in nics.values()), default=1)
