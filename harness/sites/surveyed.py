"""What hosts of an inventory say of themselves: which NICs carry data, where ranks meet, which build they have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import InputErrors, UsageError
from harness.files.sources import of_same_sources
from harness.hosts.survey import Survey
from harness.sites.inventory_file import ClusterHost
from harness.sites.site import PlannedNic

DATA, MANAGEMENT = "data", "management"
NO_DATA = (
    "nobody says which NICs carry data (in an inventory file `nics: {data: eth[0-3]}`, under Slurm NCCL_SOCKET_IFNAME)"
)


@dataclass(frozen=True)
class Surveyed:
    """An inventory's hosts and what they said of themselves. `inventory` is what the user calls it."""

    inventory: str
    hosts: tuple[ClusterHost, ...]
    surveys: Mapping[str, Survey]

    @property
    def names(self) -> list[str]:
        return [host.name for host in self.hosts]

    def nics(self) -> list[PlannedNic]:
        """All data NICs, host by host. InputErrors with every role that is missing and every NIC that is not as it
        says."""
        errors: list[str] = []
        found: list[PlannedNic] = []
        for host in self.hosts:
            there = self.surveys[host.name].nics
            names = host.nics.get(DATA, ())
            if not names:
                errors.append(f"{host.name}: {NO_DATA}")
            usable = [name for name in names if is_ipv4(there.get(name, ""))]
            found += [PlannedNic(host.name, name, there[name]) for name in usable]
            errors += [f"{host.name}: {reason}" for reason in _unusable(set(names) - set(usable), there)]
        if errors:
            raise InputErrors(errors)
        return found

    def management_of(self, host: ClusterHost) -> str | None:
        """The NIC over which ranks meet and the side channel has one more way; None: the inventory names none."""
        there = self.surveys[host.name].nics
        return next((name for name in host.nics.get(MANAGEMENT, ()) if is_ipv4(there.get(name, ""))), None)

    def root(self) -> str:
        """Where the ranks meet: the first host's management address, or else the one at which we reach it."""
        host = self.hosts[0]
        survey, name = self.surveys[host.name], self.management_of(host)
        address = survey.nics[name] if name else survey.address
        if not address:
            raise UsageError(
                f"{host.name}: ranks have no address to meet at", "name its management NIC: nics: {management: eno1}"
            )
        return address

    def env(self, net: str) -> dict[str, dict[str, str]]:
        """Which NICs NCCL and the net library use, of the ranks on each host: names may differ from host to host.

        InputErrors for a data NIC that RDMA is to use and that has no RDMA device. NCCL would take an empty list for
        all of them, management and storage too.
        """
        return {host.name: self._env(host, net) for host in self.hosts}

    def _env(self, host: ClusterHost, net: str) -> dict[str, str]:
        data, management, survey = host.nics.get(DATA, ()), self.management_of(host), self.surveys[host.name]
        side = {"R2CC_SIDE_IFNAME": management} if management else {}
        if not data:
            raise InputErrors([f"{host.name}: {NO_DATA}"])
        if net != "ib":
            return {"NCCL_SOCKET_IFNAME": "=" + ",".join(data), **side}
        devices = replace(self, hosts=(host,)).devices()
        ports = {name: f":{number}" for name, number in survey.ports.items()}
        used = dict.fromkeys(devices[host.name, name] + ports.get(name, "") for name in data)
        return {"NCCL_IB_HCA": "=" + ",".join(used), "NCCL_SOCKET_IFNAME": "=" + (management or data[0]), **side}

    def devices(self) -> dict[tuple[str, str], str]:
        """The RDMA device of each data NIC. InputErrors naming every NIC that has none, and hosts without data NICs."""
        wanted = [(host.name, name) for host in self.hosts for name in host.nics.get(DATA, ())]
        errors = [f"{host.name}: {NO_DATA}" for host in self.hosts if not host.nics.get(DATA)]
        known = {host: survey.devices for host, survey in self.surveys.items()}
        errors += [
            f"{host}: data NIC '{name}' has no RDMA device (with one: {', '.join(known[host]) or 'none'}); "
            "see rdma-driver and gid-index of `r2cc doctor`, or use `net: socket`"
            for host, name in wanted
            if name not in known[host]
        ]
        if errors:
            raise InputErrors(errors)
        return {(host, name): known[host][name] for host, name in wanted}

    def program(self, host: str, name: str) -> Path:
        """One of what is deployed there: `bin/r2cc_bench`, `lib/libr2cc_net.so`."""
        return Path(self.surveys[host].prefix) / "current" / name

    def build(self) -> dict[str, Any]:
        """build.json of what the hosts have, the first one's. UsageError when one has nothing, other sources, or
        what is for another CPU."""
        ids = {name: survey.build_id for name, survey in self.surveys.items()}
        without = [name for name, found in ids.items() if found is None]
        if without:
            raise UsageError(f"nothing is deployed on {_few(without)}", f"r2cc deploy --inventory {self.inventory}")
        if alien := [name for name, survey in self.surveys.items() if survey.alien]:
            there = self.surveys[alien[0]]
            what = f"what is deployed in {there.prefix} on {_few(alien)} is for another CPU ({there.alien})"
            hint = f"give them a `prefix:` of their own in the inventory, then r2cc deploy --inventory {self.inventory}"
            raise UsageError(what, hint)
        if len(set(ids.values())) > 1 and not of_same_sources(survey.build or {} for survey in self.surveys.values()):
            what = "; ".join(
                f"{found} on {_few([n for n in ids if ids[n] == found])}"
                for found in sorted(set(map(str, ids.values())))
            )
            raise UsageError(f"hosts have different builds: {what}", f"r2cc deploy --inventory {self.inventory}")
        return dict(self.surveys[self.hosts[0].name].build or {})


def is_ipv4(address: str) -> bool:
    return bool(address) and ":" not in address


def _unusable(names: Iterable[str], there: Mapping[str, str]) -> Iterator[str]:
    """Why a host's data NICs `names` cannot be used; one reason for all that are not there."""
    for name in sorted(there.keys() & names):
        yield f"NIC '{name}' has IPv6 addresses alone ({there[name]}): IPv6 alone is not supported, give it one of IPv4"
    if absent := ", ".join(f"'{name}'" for name in sorted(set(names) - there.keys())):
        with_one = ", ".join(each for each, address in there.items() if is_ipv4(address)) or "none"
        yield f"no NIC {absent} with an IPv4 address (with one: {with_one})"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
