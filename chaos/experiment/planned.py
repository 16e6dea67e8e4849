"""The timeline on one testbed: each fault tied to the NICs, the host and the rank that it breaks there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaos.experiment.aliases import resolved
from chaos.experiment.model import Experiment
from chaos.faults.fault import Fault, NicLike, by_host
from chaos.faults.registry import fault_of
from chaos.faults.spec import FaultSpec
from chaos.faults.steps import Command
from harness.errors import UsageError


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


def planned_faults(experiment: Experiment, nics: Sequence[NicLike], per_host: int = 1) -> list[PlannedFault]:
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
        raise UsageError(f"fault {spec.id}: this testbed has no {place}", hint)
    hosts = [host for host in names for _ in range(per_host)]
    if (where == "rank" and (spec.rank or 0) >= len(hosts)) or (where == "host" and spec.host not in hosts):
        place = f"host {spec.host}" if where == "host" else f"rank {spec.rank}"
        raise UsageError(f"fault {spec.id}: this testbed has no {place}", hint)
    host = targets[0][0] if targets else spec.host if where == "host" else hosts[spec.rank or 0]
    return PlannedFault(spec, fault_of(spec, [known[target] for target in targets], host), tuple(targets), host)
