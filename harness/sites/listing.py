"""What `r2cc hosts list` says of each host of an inventory; nothing is started and nobody is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.hosts.pods.target import PodTarget
from harness.hosts.ssh.target import Target
from harness.schemas.form import form
from harness.sites.inventory_file import ClusterHost


@dataclass(frozen=True)
class ListedHost:
    """A host, and how it is reached."""

    name: str
    address: str
    user: str | None
    port: int | None
    keys: Sequence[str]
    jump: str | None
    nics: Mapping[str, Sequence[str]]
    gpus: int | None
    labels: Mapping[str, str]


@form("hosts", "r2cc hosts list")
@dataclass(frozen=True)
class Listing:
    """The hosts of an inventory."""

    inventory: str
    hosts: Sequence[ListedHost]


def of_member(host: ClusterHost) -> ListedHost:
    """Of a host of an inventory file."""
    target = host.target
    if isinstance(target, PodTarget):
        return ListedHost(host.name, target.shown, None, None, [], None, host.nics, host.gpus, host.labels)
    return ListedHost(
        name=host.name,
        address=target.address,
        user=target.user,
        port=target.port,
        keys=[str(path) for path in target.keys],
        jump=_way(target),
        nics=host.nics,
        gpus=host.gpus,
        labels=host.labels,
    )


def _way(target: Target) -> str | None:
    """What stands between; None: it is reached directly."""
    if target.proxy_command is not None:
        return f"ProxyCommand: {target.proxy_command}"
    return target.jump.shown if target.jump else None


def of_bed(name: str, nics: list[tuple[str, str]], gpus: int | None = None) -> ListedHost:
    """The last NIC is that of the management network, at whose address ranks meet."""
    roles = {"data": [nic for nic, _ in nics[:-1]], "management": [nics[-1][0]]}
    return ListedHost(name, nics[-1][1], None, None, [], None, roles, gpus, {})


def line(host: ListedHost) -> str:
    """The same for people."""
    way = host.address if host.user is None else f"{host.user}@{host.address}"
    port = f":{host.port}" if host.port not in (None, 22) else ""
    jump = f" through {host.jump}" if host.jump else ""
    nics = "".join(f"  {role}: {' '.join(names)}" for role, names in host.nics.items())
    return f"{host.name}  {way}{port}{jump}{nics}"
