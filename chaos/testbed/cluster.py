"""The bed of an inventory file: hosts over SSH, with what `r2cc deploy` put there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from chaos.deadman.ways import check
from chaos.experiment.model import Limits
from chaos.testbed.launch import PlannedFault
from harness.errors import UsageError
from harness.facts.environment import hardware_of
from harness.hosts import Host
from harness.hosts.ssh import ssh_hosts
from harness.hosts.survey import Survey, survey
from harness.sites.cluster_facts import ClusterNic, deployed, devices, environment, nics, root_of
from harness.sites.inventory import cluster_hosts
from harness.sites.inventory_file import ClusterHost


@dataclass(frozen=True)
class Cluster:
    """An inventory's hosts and what they said of themselves."""

    inventory: str
    hosts: tuple[ClusterHost, ...]
    surveys: Mapping[str, Survey]

    @property
    def names(self) -> list[str]:
        return [host.name for host in self.hosts]

    def nics(self) -> list[ClusterNic]:
        return nics(self.hosts, self.surveys)

    def root(self) -> str:
        return root_of(self.hosts[0], self.surveys[self.hosts[0].name])

    def env(self, net: str) -> dict[str, dict[str, str]]:
        """Of the ranks on each host."""
        return {host.name: environment(host, self.surveys[host.name], net) for host in self.hosts}

    def devices(self) -> dict[tuple[str, str], str]:
        return devices(self.hosts, self.surveys)

    def program(self, host: str, name: str) -> Path:
        """One of what is deployed there: `bin/r2cc_bench`, `lib/libr2cc_net.so`."""
        return Path(self.surveys[host].prefix) / "current" / name

    def build(self) -> dict[str, Any]:
        """build.json of what all hosts have. UsageError when they have nothing, or not all the same."""
        deployed(self.surveys, self.inventory)
        return dict(self.surveys[self.hosts[0].name].build or {})

    def gpus(self) -> int:
        """Of each host. UsageError when they have not all the same number, or the inventory does not say."""
        counts = {host.gpus for host in self.hosts}
        count = next(iter(counts))
        if len(counts) > 1 or count is None:
            raise UsageError(
                f"{self.inventory}: hosts have {', '.join(sorted(map(str, counts)))} GPUs",
                "give `gpus`, the same number for all hosts",
            )
        return count

    def without_backup(self, hosts: Mapping[str, Host]) -> list[str]:
        """NICs whose loss no mode can survive; for people."""
        from harness.doctor.backups import without

        return without(hosts, {host.name: host.nics.get("data", ()) for host in self.hosts})

    def hardware(self) -> dict[str, Any]:
        """Of all hosts together: figures are compared between the same hosts only."""
        told = [self.surveys[name] for name in self.names]
        return hardware_of([(each.cpu, each.cores, each.memory_bytes) for each in told])


@cache
def surveyed(inventory: str) -> Cluster:
    """Connects to all hosts, asks each and closes the connections; once in a process for each inventory.

    InputErrors or UsageError for a wrong file, InfraError naming every host that cannot be reached.
    """
    with opened(inventory) as (_, cluster):
        return cluster


def refuse_unsafe(
    inventory: str, faults: Sequence[PlannedFault], data: Mapping[str, Sequence[str]], limits: Limits
) -> None:
    """UsageError with all reasons for which these faults must not strike there (chaos/deadman/safety.py)."""
    hosts = cluster_hosts(inventory)
    with ssh_hosts(host.target for host in hosts) as reached:
        check(reached, hosts, faults, data, limits)


@contextmanager
def opened(inventory: str) -> Iterator[tuple[Mapping[str, Host], Cluster]]:
    """The hosts, connected to and asked anew; connections are closed when the block ends."""
    hosts = cluster_hosts(inventory)
    with ssh_hosts(host.target for host in hosts) as reached:
        prefixes = {host.name: host.prefix for host in hosts}
        yield reached, Cluster(inventory, tuple(hosts), survey(reached, prefixes))
