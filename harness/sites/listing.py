"""What `r2cc hosts list` says of each host of an inventory; nothing is started and nobody is asked."""

from __future__ import annotations

from typing import Any

from harness.hosts.ssh.target import Target
from harness.sites.inventory_file import ClusterHost

Json = dict[str, Any]


def of_member(host: ClusterHost) -> Json:
    """Of a host over SSH."""
    return {
        "name": host.name,
        **{key: getattr(host.target, key) for key in ("address", "user", "port")},
        "keys": [str(path) for path in host.target.keys],
        "jump": _way(host.target),
        "nics": {role: list(names) for role, names in host.nics.items()},
        "gpus": host.gpus,
        "labels": dict(host.labels),
    }


def _way(target: Target) -> str | None:
    """What stands between; None: it is reached directly."""
    if target.proxy_command is not None:
        return f"ProxyCommand: {target.proxy_command}"
    return target.jump.shown if target.jump else None


def of_bed(name: str, nics: list[tuple[str, str]], gpus: int | None = None) -> Json:
    """The last NIC is that of the management network, at whose address ranks meet."""
    roles = {"data": [nic for nic, _ in nics[:-1]], "management": [nics[-1][0]]}
    way: Json = {"address": nics[-1][1], "user": None, "port": None, "keys": [], "jump": None}
    return {"name": name, **way, "nics": roles, "gpus": gpus, "labels": {}}


def line(host: Json) -> str:
    """The same for people."""
    way = host["address"] if host["user"] is None else f"{host['user']}@{host['address']}"
    port = f":{host['port']}" if host["port"] not in (None, 22) else ""
    jump = f" through {host['jump']}" if host["jump"] else ""
    nics = "".join(f"  {role}: {' '.join(names)}" for role, names in host["nics"].items())
    return f"{host['name']}  {way}{port}{jump}{nics}"
