"""What must not be broken: the controller's own way to a host, its management network, too much at once. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from chaos.experiment.model import Limits
from chaos.faults.spec import FaultSpec

Target = tuple[str, str]
"""A host and one of its NICs."""
DEFAULT_HINT = "name another NIC, or give the host a network of its own for SSH (nics: {management: ...})"


@dataclass(frozen=True)
class Ways:
    """What a host says of how it is reached. `client` and `server` are the ends of the SSH connection."""

    client: str
    server: str
    links: Sequence[Mapping[str, Any]]
    """`ip -j -d addr show`."""
    routes: Sequence[str]
    """Interfaces through which answers leave."""
    default: Sequence[str]
    """Of the default routes with the lowest metric."""

    def holding(self, address: str) -> list[str]:
        """Interfaces with this address; the one that an IPv6 address names behind its `%`."""
        plain, _, zone = address.partition("%")
        plain = plain.removeprefix("::ffff:")
        found = [
            str(link["ifname"])
            for link in self.links
            if any(entry.get("local") == plain for entry in link.get("addr_info", []))
        ]
        return [zone] if zone else found

    def below(self, names: Iterable[str]) -> list[str]:
        """These and all they run over: ports of bonds and bridges, what VLANs and tunnels lie on."""
        found: dict[str, None] = {}
        todo = [*names]
        while todo:
            name = todo.pop()
            if name in found:
                continue
            found[name] = None
            for link in self.links:
                if link.get("master") == name:
                    todo.append(str(link["ifname"]))
                if link.get("ifname") == name and "link_netnsid" not in link:
                    over = (link.get("link"), link.get("linkinfo", {}).get("info_data", {}).get("link"))
                    todo += [str(each) for each in over if each]
        return [*found]


def parse(text: str) -> Ways:
    """From what chaos/deadman/ways.py asks. ValueError or KeyError when it is cut short or no such text."""
    parts = re.split(r"^=== (\w+)\n", text, flags=re.MULTILINE)
    said = {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}
    if "end" not in said:
        raise ValueError("its answer is cut short")
    connection = said["connection"].split()
    if len(connection) != 4:
        raise ValueError("it does not say how it is reached (SSH_CONNECTION)")
    routes = [name for key in ("route", "route_from") for line in said[key].splitlines() for name in _devices(line)]
    return Ways(
        connection[0],
        connection[2],
        json.loads(said["links"]),
        [*dict.fromkeys(routes)],
        _first(said["default"].splitlines()),
    )


def _devices(line: str) -> list[str]:
    """The interfaces of a line of `ip -o route`: several, where it has several ways."""
    words = line.split()
    return [name for word, name in pairwise(words) if word == "dev"]


def _first(lines: Sequence[str]) -> list[str]:
    """Interfaces of the default routes that are used: those with the lowest metric."""
    known = [(_metric(line), name) for line in lines if line.startswith("default") for name in _devices(line)]
    best = min((metric for metric, _ in known), default=0)
    return [name for metric, name in dict.fromkeys(known) if metric == best]


def _metric(line: str) -> int:
    words = line.split()
    return int(words[words.index("metric") + 1]) if "metric" in words[:-1] else 0


def protected(ways: Mapping[str, Ways], management: Mapping[str, Sequence[str]]) -> dict[Target, str]:
    """What must not be broken on any host, and why."""
    found: dict[Target, str] = {}

    def protect(host: str, names: Iterable[str], why: str) -> None:
        for name in ways[host].below(names) if host in ways else names:
            found.setdefault((host, name), why)

    for host, told in ways.items():
        protect(host, [*told.holding(told.server), *told.routes], "carries the controller's connection")
        for other, theirs in ways.items():
            if other != host:
                protect(host, told.holding(theirs.client), f"carries the controller's way to {other}")
    for host, told in ways.items():
        protect(host, told.default, "has the default route")
    for host, names in management.items():
        protect(host, names, "is for management, says the inventory")
    return {target: why for target, why in found.items() if target[1] != "lo"}


def too_much(broken: Iterable[Target], nics: Mapping[str, Sequence[str]], limits: Limits) -> str | None:
    """Why so many NICs must not be broken at once; None: they may. `nics` are all data NICs, by host."""
    by_host: dict[str, set[str]] = {}
    for host, nic in broken:
        by_host.setdefault(host, set()).add(nic)
    most = limits.hosts if limits.hosts is not None else max(1, (len(nics) + 1) // 2)
    if len(by_host) > most:
        return (
            f"{len(by_host)} of {len(nics)} hosts at once are more than {most} (say limits: {{hosts: {len(by_host)}}})"
        )
    for host, names in by_host.items():
        every = len(nics.get(host, ()))
        most = limits.nics if limits.nics is not None else every - 1
        if len(names) > most:
            return (
                f"{len(names)} of {host}'s {every} NICs at once are more than {most} "
                f"(say limits: {{nics: {len(names)}}}, or allow_total_loss: true if that is meant)"
            )
    return None


def anything(broken: Iterable[Target]) -> str | None:
    """The limit of a bed that is ours alone."""
    return None


def counted(spec: FaultSpec, targets: Iterable[Target]) -> list[Target]:
    """What of a fault counts: nothing of one that says it means it. A rail is one NIC of every host by its name."""
    return [] if spec.allow_total_loss or spec.rail is not None else [*targets]


def refusals(
    faults: Iterable[tuple[FaultSpec, Sequence[Target]]],
    forbidden: Mapping[Target, str],
    nics: Mapping[str, Sequence[str]],
    limits: Limits,
) -> list[str]:
    """Everything for which an experiment is refused before it touches anything."""
    found = []
    for spec, targets in faults:
        found += [
            f"fault {spec.id}: {host} {nic} {forbidden[host, nic]}" for host, nic in targets if (host, nic) in forbidden
        ]
        why = too_much(counted(spec, targets), nics, limits)
        found += [f"fault {spec.id}: {why}"] * (why is not None)
    return found
