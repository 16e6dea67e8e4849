"""An inventory file of a CloudLab experiment: from its manifest, and from its hosts what their NICs are called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.cloudlab.manifest import Node
from harness.cloudlab.profile import HARDWARE
from harness.config import yaml_text
from harness.errors import InfraError, InputErrors, UsageError
from harness.hosts import Host
from harness.hosts.parallel import Outcome, on_all
from harness.sites.inventory_file import ClusterHost
from harness.sites.inventory_file import parse as parse_inventory

LOOK_LIMIT_S = 20.0
OWN_LINE = re.compile(r"^:\d+: ")
NAMES_BY_MAC = """\
for nic in /sys/class/net/*; do
  [ -e "$nic/device" ] && read -r address <"$nic/address" && printf '%s %s\\n' "$address" "${nic##*/}"
done
while read -r nic destination _; do
  [ "$destination" = 00000000 ] && printf 'default %s\\n' "$nic"
done </proc/net/route
:"""
"""Physical NICs alone: a VLAN, bridge or bond on top has the address of one of them. The default route is the control
network's, which carries our SSH connection."""
BY_ADDRESS = """\
# NICs are named by address: nobody asked the hosts what Linux calls them. Write the manifest's inventory again once
# `r2cc hosts check` is satisfied with all of them.
"""


@dataclass(frozen=True)
class Access:
    """How one logs in: whose login it is where the manifest has several, and the key file."""

    user: str | None = None
    key: str | None = None
    known_hosts: str | None = None


@dataclass(frozen=True)
class Names:
    """What Linux calls a node's NICs: those of the rails, in their order, and the control network's."""

    data: tuple[str, ...]
    management: str | None = None


def document(nodes: Sequence[Node], access: Access, names: Mapping[str, Names] | None = None) -> dict[str, Any]:
    """What the inventory file holds. Raises UsageError when it is not clear whose login is meant."""
    logins = {node.name: _login(node, access.user) for node in nodes}
    defaults: dict[str, Any] = {"user": next(iter(logins.values()))[0]}
    defaults |= {key: value for key in ("key", "known_hosts") if (value := getattr(access, key)) is not None}
    entries = [_entry(node, logins[node.name], (names or {}).get(node.name)) for node in nodes]
    for node, entry in zip(nodes, entries, strict=True):
        if logins[node.name][0] != defaults["user"]:
            entry["user"] = logins[node.name][0]
    return {"schema": 1, "name": "cloudlab", "defaults": defaults, "hosts": entries}


def text(nodes: Sequence[Node], access: Access, names: Mapping[str, Names] | None = None) -> str:
    """The file itself."""
    body = yaml_text.dumped(document(nodes, access, names))
    return f"# Made by `r2cc inventory from-cloudlab`.\n{BY_ADDRESS if names is None else ''}{body}"


def checked(content: str, file: str) -> list[ClusterHost]:
    """The hosts that the file means, as every other command will read it: a key that is not there is found now.

    InputErrors without the lines of the file, as it is not written yet."""
    try:
        return parse_inventory(content, file, config=None, home=Path.home())
    except InputErrors as error:
        raise InputErrors([OWN_LINE.sub("", each.removeprefix(file)) for each in error.errors], error.hint) from error


def _entry(node: Node, login: tuple[str, str, int], names: Names | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": node.name, "address": login[1]}
    if login[2] != 22:
        entry["port"] = login[2]
    if node.nics:
        entry["nics"] = {"data": ",".join(names.data if names else [nic.address for nic in node.nics])}
        entry["nics"] |= {"management": names.management} if names and names.management else {}
    if node.hardware in HARDWARE:
        entry["gpus"] = HARDWARE[node.hardware].gpus
    return {**entry, "labels": _labels(node)}


def _labels(node: Node) -> dict[str, str]:
    said = {"hardware": node.hardware, "site": node.site, "component": node.component}
    said |= {f"{nic.lan}_gbit": f"{nic.rate_gbit:g}" for nic in node.nics if nic.rate_gbit is not None}
    said |= {f"{nic.lan}_address": nic.address for nic in node.nics}
    return {key: value for key, value in said.items() if value}


def _login(node: Node, user: str | None) -> tuple[str, str, int]:
    wanted = [login for login in node.logins if user in (None, login[0])]
    if user is not None and not wanted:
        # The manifest names whoever started the experiment; others of the project have accounts there, too.
        return (user, *node.logins[0][1:])
    if len({login[0] for login in wanted}) > 1:
        users = ", ".join(sorted({login[0] for login in wanted}))
        raise UsageError(f"several users may log in to {node.name}: {users}", "say which with --user")
    return wanted[0]


def resolve(nodes: Sequence[Node], hosts: Mapping[str, Host]) -> dict[str, Outcome[Names]]:
    """Asks all hosts at once what Linux calls the NICs that the manifest knows by MAC address."""
    return on_all({node.name: partial(_names, node, hosts[node.name]) for node in nodes})


def _names(node: Node, host: Host) -> Names:
    found = names_by_mac(host.run(["sh", "-c", NAMES_BY_MAC], timeout_s=LOOK_LIMIT_S).stdout)
    wrong = [nic for nic in node.nics if len(found.get(nic.mac, ())) != 1]
    if wrong:
        which = "; ".join(
            f"{nic.lan}: {nic.mac} is {' and '.join(found.get(nic.mac, ())) or 'no NIC of it'}" for nic in wrong
        )
        raise InfraError(f"{node.name}: its NICs are not those of the manifest ({which})", "save the manifest again")
    data = tuple(found[nic.mac][0] for nic in node.nics)
    return Names(data, next((name for name in found.get("default", ()) if name not in data), None))


def names_by_mac(output: str) -> dict[str, list[str]]:
    """NICs of each MAC address; under `default` those of default routes."""
    found: dict[str, list[str]] = {}
    for line in output.splitlines():
        mac, _, name = line.partition(" ")
        found.setdefault(mac.lower(), []).append(name)
    return found
