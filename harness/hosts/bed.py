"""Hosts of an inventory as a bed: which NICs carry data, where ranks meet, what the net library is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.errors import InputErrors, UsageError
from harness.hosts.cluster import ClusterHost
from harness.hosts.survey import Survey

DATA, MANAGEMENT = "data", "management"


@dataclass(frozen=True)
class ClusterNic:
    """A NIC that carries data. `rail` is its place in the role; nobody lets us into the switch behind it."""

    host: str
    name: str
    rail: int
    address: str
    switch_port: str = ""


def nics(hosts: Sequence[ClusterHost], surveys: Mapping[str, Survey]) -> list[ClusterNic]:
    """All data NICs, host by host. InputErrors with every role that is missing and every NIC that is not as it says."""
    errors: list[str] = []
    found: list[ClusterNic] = []
    for host in hosts:
        there = surveys[host.name].nics
        names = host.nics.get(DATA, ())
        if not names:
            errors.append(f"{host.name}: the inventory does not say which NICs carry data (nics: {{data: eth[0-3]}})")
        for rail, name in enumerate(names):
            if name in there:
                found.append(ClusterNic(host.name, name, rail, there[name]))
            else:
                errors.append(f"{host.name}: no NIC '{name}' with an IPv4 address (with one: {', '.join(there)})")
    if errors:
        raise InputErrors(errors)
    return found


def management_of(host: ClusterHost, survey: Survey) -> str | None:
    """The NIC over which ranks meet and the side channel has one more way; None: the inventory names none."""
    return next((name for name in host.nics.get(MANAGEMENT, ()) if name in survey.nics), None)


def root_of(host: ClusterHost, survey: Survey) -> str:
    """Where the ranks meet: the first host's management address, or else the one at which we reach it."""
    name = management_of(host, survey)
    address = survey.nics[name] if name else survey.address
    if not address:
        raise UsageError(
            f"{host.name}: ranks would not know where to meet", "name its management NIC: nics: {management: eno1}"
        )
    return address


def environment(host: ClusterHost, survey: Survey, net: str = "socket") -> dict[str, str]:
    """Which of this host's NICs NCCL and the net library use: names may differ from host to host."""
    data, management = host.nics.get(DATA, ()), management_of(host, survey)
    side = {"R2CC_SIDE_IFNAME": management} if management else {}
    if net != "ib":
        return {"NCCL_SOCKET_IFNAME": "=" + ",".join(data), **side}
    devices = [survey.devices[name] for name in data if name in survey.devices]
    return {"NCCL_IB_HCA": "=" + ",".join(devices), "NCCL_SOCKET_IFNAME": "=" + (management or data[0]), **side}


def devices(hosts: Sequence[ClusterHost], surveys: Mapping[str, Survey]) -> dict[tuple[str, str], str]:
    """The RDMA device of each data NIC that has one."""
    return {
        (host.name, name): device
        for host in hosts
        for name, device in surveys[host.name].devices.items()
        if name in host.nics.get(DATA, ())
    }


def deployed(surveys: Mapping[str, Survey], inventory: str) -> str:
    """The build id that all hosts have. UsageError when one has none, or another one."""
    ids = {name: survey.build_id for name, survey in surveys.items()}
    without = [name for name, found in ids.items() if found is None]
    if without:
        raise UsageError(f"nothing is deployed on {_few(without)}", f"r2cc deploy --inventory {inventory}")
    if len(set(ids.values())) > 1:
        what = "; ".join(
            f"{found} on {_few([n for n in ids if ids[n] == found])}" for found in sorted(set(map(str, ids.values())))
        )
        raise UsageError(f"hosts have different builds: {what}", f"r2cc deploy --inventory {inventory}")
    return str(next(iter(ids.values())))


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
