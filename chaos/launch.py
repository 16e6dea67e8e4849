"""What runs where: from an experiment and a bed to command lines. Pure; the runner and `--dry-run` share it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from chaos.faults import Fault, fault_of
from chaos.model import MODES, Experiment, FaultSpec, Workload
from harness.errors import UsageError

ROOT_PORT = 29500


class NicLike(Protocol):
    """What a bed tells about a NIC (docs/contracts.md, Nic)."""

    @property
    def host(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def switch_port(self) -> str: ...


class Bench(Protocol):
    """How the workload's processes are started; harness.bench is the real one, tests have a double."""

    def rank(
        self, workload: Workload, *, rank: int, ranks: int, root: str, seed: int, env: Mapping[str, str]
    ) -> list[str]: ...
    def env(self, mode: int) -> dict[str, str]: ...
    def sampler(self, nics: Sequence[str], *, cpu: bool) -> list[str]: ...


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
    """A fault of the timeline, tied to the switch port of its NIC."""

    spec: FaultSpec
    fault: Fault


def ranks(experiment: Experiment, arm: str, hosts: Sequence[str], root: str, bench: Bench) -> list[Launch]:
    """One rank on each host, in the hosts' order; `root` is the address the ranks meet at."""
    env = {**bench.env(MODES[arm]), **next(spec.env for name, spec in experiment.arms.items() if name == arm)}
    where = f"{root}:{ROOT_PORT}"
    return [
        Launch(
            host,
            f"rank{rank}",
            bench.rank(experiment.workload, rank=rank, ranks=len(hosts), root=where, seed=experiment.seed, env=env),
            env,
        )
        for rank, host in enumerate(hosts)
    ]


def samplers(nics: Mapping[str, Sequence[str]], bench: Bench) -> list[Launch]:
    """One sampler a host; the first one also watches the machine's CPU."""
    return [
        Launch(host, f"sampler-{host}", bench.sampler(names, cpu=index == 0))
        for index, (host, names) in enumerate(nics.items())
    ]


def faults(experiment: Experiment, nics: Sequence[NicLike]) -> list[PlannedFault]:
    """The timeline on this bed. Raises UsageError for a NIC that the bed does not have (another inventory, perhaps)."""
    ports = {(nic.host, nic.name): nic.switch_port for nic in nics}
    planned = []
    for spec in experiment.faults:
        if (spec.host, spec.nic) not in ports:
            hint = "use the experiment's own topology (--inventory lab), or change the fault's host and nic"
            raise UsageError(f"fault {spec.id}: this bed has no NIC {spec.nic} on host {spec.host}", hint)
        planned.append(PlannedFault(spec, fault_of(spec, ports[spec.host, spec.nic])))
    return planned


def by_host(nics: Sequence[NicLike]) -> dict[str, list[str]]:
    """NIC names by host, in the bed's order."""
    found: dict[str, list[str]] = {}
    for nic in nics:
        found.setdefault(nic.host, []).append(nic.name)
    return found
