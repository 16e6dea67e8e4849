"""What runs where: from an experiment and a bed to command lines. Pure; the runner and `--dry-run` share it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from chaos.experiment.aliases import environment, resolved
from chaos.experiment.model import MODES, RESTART, UPSTREAM, Experiment, FaultSpec, GpuWorkload, Workload
from chaos.faults.fault import Fault, NicLike
from chaos.faults.registry import fault_of
from chaos.faults.steps import Command
from harness.errors import UsageError
from harness.hosts.ssh_target import Target
from harness.launch.gather import gathered
from harness.launch.job import Job
from harness.launch.network import towards
from harness.vmlab.rdma import failover_env, rdma_env

ROOT_PORT = 29500
DIRECT = "direct"
OURSELVES = (DIRECT, "ssh")
"""Launchers that are our own connections to the hosts."""
SAMPLES_MS, SAMPLES_EMULATED_MS = 10, 200
RESTART_AFTER = "R2CC_RESTART_AFTER_S"
"""A rank with it in its environment watches over the one that works (harness/workloads/restart.py)."""
MERGED_MAX = 4
"""NCCL_NET_MAX_DEVS_PER_NIC: how many NICs a virtual one may have."""
Lateness = tuple[int, int, int]
"""(rank, iteration, ms)."""


class Bench(Protocol):
    """How the workload's processes are started; harness.workloads.bench is the real one, tests have a double."""

    def rank(
        self,
        workload: Workload,
        *,
        rank: int,
        ranks: int,
        root: str,
        seed: int,
        env: Mapping[str, str],
        late: Sequence[Lateness] = (),
        merge_nics: int = 1,
    ) -> list[str]: ...
    def clock_env(self, file: str) -> dict[str, str]:
        """What a rank needs so that its wall clock jumps by the seconds that `file` holds."""
        ...

    def env(self, mode: int, places_file: Path | None = None) -> dict[str, str]: ...
    def sampler(self, nics: Sequence[str], *, cpu: bool, interval_ms: int = 10) -> list[str]: ...


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


@dataclass(frozen=True)
class PlannedFault:
    """A fault of the timeline, tied to the NICs, the host and the rank that it breaks on this bed."""

    spec: FaultSpec
    fault: Fault
    targets: tuple[tuple[str, str], ...] = ()
    """(host, NIC) pairs; empty for what breaks no NIC."""
    host: str = ""
    """Where it happens; the first of several."""

    @property
    def nic(self) -> str:
        return self.targets[0][1] if self.targets else ""

    @property
    def place(self) -> str:
        """For people."""
        if len(self.targets) > 1:
            return f"{len(self.targets)} NICs ({', '.join(f'{host} {nic}' for host, nic in self.targets[:4])}...)"
        return f"{self.host} {self.nic}" if self.targets else f"{self.host or 'the workload'}"

    @property
    def probed_on(self) -> str:
        return next((step.on for step in self.fault.probe() if isinstance(step, Command)), self.host)

    def clashes(self, other: PlannedFault) -> bool:
        """True when both break the same NIC, or do the same to one host: neither could be told from the other."""
        if self.targets or other.targets:
            return bool(set(self.targets) & set(other.targets))
        return (self.spec.kind, self.host) == (other.spec.kind, other.host)


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
    launches = []
    for rank, host in enumerate(host for host in hosts for _ in range(each)):
        programs = bench_on(bench, host)
        theirs = {"NCCL_HOSTID": host, **of_host[host]} if of_host else _apart(experiment, host)
        mine = {**programs.env(MODES[arm], places_file), **env, **theirs, **own}
        for fault in experiment.faults:
            mine |= fault.rank_env(rank, programs)
        argv = programs.rank(
            experiment.workload,
            rank=rank,
            ranks=len(hosts) * each,
            root=where,
            seed=experiment.seed,
            env=mine,
            late=late,
            merge_nics=merge,
        )
        launches.append(Launch(host, f"rank{rank}", argv, mine))
    return launches


def job(planned: Sequence[Launch], root: str, launcher: str, targets: Sequence[Target]) -> Job | None:
    """The ranks as one job for a launcher; None: we start each ourselves. UsageError where it could not start them."""
    if launcher in OURSELVES:
        return None
    own = towards(targets[0].address) if launcher == "mpirun" and targets else ""
    return gathered(
        [each.host for each in planned],
        [each.argv for each in planned],
        [each.env for each in planned],
        rendezvous=f"{root}:{ROOT_PORT}",
        out_of_band=own,
    )


def _apart(experiment: Experiment, host: str) -> dict[str, str]:
    """Hosts of the lab share a kernel and its GPUs: NCCL is to take them for different machines."""
    return {"NCCL_HOSTID": f"lab-{host}"} if isinstance(experiment.workload, GpuWorkload) else {}


def per_host(experiment: Experiment, gpus: int) -> int:
    """How many ranks a host has."""
    return gpus if isinstance(experiment.workload, GpuWorkload) else 1


def _restarting(experiment: Experiment, arm: str) -> dict[str, str]:
    workload = experiment.workload
    if arm != RESTART or not isinstance(workload, GpuWorkload):
        return {}
    return {RESTART_AFTER: f"{workload.restart_after_s:g}"}


def samplers(
    nics: Mapping[str, Sequence[str]], bench: Benches, net: str = "socket", *, every_cpu: bool = False
) -> list[Launch]:
    """One sampler a host; the first one, or all (`every_cpu`), also watch their machine's CPU. In emulation samples
    cost: there are few."""
    interval_ms = SAMPLES_EMULATED_MS if net == "ib" else SAMPLES_MS
    return [
        Launch(host, f"sampler-{host}", _sampler(bench, host, names, cpu=every_cpu or index == 0, ms=interval_ms))
        for index, (host, names) in enumerate(nics.items())
    ]


def _sampler(benches: Benches, host: str, names: Sequence[str], *, cpu: bool, ms: int) -> list[str]:
    return bench_on(benches, host).sampler(names, cpu=cpu, interval_ms=ms)


def faults(experiment: Experiment, nics: Sequence[NicLike], per_host: int = 1) -> list[PlannedFault]:
    """The timeline on this bed. UsageError for a place that the bed does not have (another inventory, perhaps)."""
    return [_planned(spec, nics, per_host) for spec in experiment.faults]


def _planned(spec: FaultSpec, nics: Sequence[NicLike], per_host: int) -> PlannedFault:
    known = {(nic.host, nic.name): nic for nic in nics}
    names = by_host(nics)
    spec = resolved(spec, names)
    targets = spec.targets(names)
    where = spec.where
    hint = "use the experiment's own topology (--inventory lab), or change the fault's place"
    if where in ("nics", "rail") and not targets:
        place = (
            f"rail {spec.rail}" if where == "rail" else ", ".join(spec.nics) or f"NIC {spec.nic} on host {spec.host}"
        )
        raise UsageError(f"fault {spec.id}: this bed has no {place}", hint)
    hosts = [host for host in names for _ in range(per_host)]
    if (where == "rank" and (spec.rank or 0) >= len(hosts)) or (where == "host" and spec.host not in hosts):
        place = f"host {spec.host}" if where == "host" else f"rank {spec.rank}"
        raise UsageError(f"fault {spec.id}: this bed has no {place}", hint)
    host = targets[0][0] if targets else spec.host if where == "host" else hosts[spec.rank or 0]
    return PlannedFault(spec, fault_of(spec, [known[target] for target in targets], host), tuple(targets), host)


def by_host(nics: Sequence[NicLike]) -> dict[str, list[str]]:
    """NIC names by host, in the bed's order."""
    found: dict[str, list[str]] = {}
    for nic in nics:
        found.setdefault(nic.host, []).append(nic.name)
    return found


def most_nics(nics: Mapping[str, Sequence[str]]) -> int:
    """How many NICs the host with most of them has."""
    return max((len(names) for names in nics.values()), default=1)
