"""A fault that acts inside the hosts of its NICs, where nobody lets us into the switch."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.faults.fault import Fault
from chaos.faults.parts.keep import record
from chaos.faults.steps import Step


@dataclass(frozen=True)
class HostFault(Fault):
    """One process on each host. `kept`: lines that give back what was, by host."""

    kept: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def facts(self) -> list[Step]:
        return [record(host, names) for host, names in self.by_host.items()]
