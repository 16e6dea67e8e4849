"""What makes a topology impossible, although each of its keys is fine by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError

if TYPE_CHECKING:
    from chaos.simulate.cluster.topology import Place, Topology

NAMED = 5
"""So many hosts are named one by one; of more only how many there are."""


def between_keys(value: Any) -> list[tuple[Place, str]]:
    """From the raw value, so that these are reported beside all other mistakes."""
    if not isinstance(value, Mapping):
        return []
    return [*_pods(value), *_overrides(value)]


def _pods(value: Mapping[str, Any]) -> list[tuple[Place, str]]:
    hosts, fabric = value.get("hosts"), value.get("fabric")
    if not isinstance(fabric, Mapping) or type(hosts) is not int:
        return []
    pod = fabric.get("pod", hosts)
    if type(pod) is not int or pod < 1 or hosts < 1:
        return []
    if pod < hosts and hosts % pod:
        return [(("fabric", "pod"), f"pods of {pod} do not divide {hosts} hosts: {hosts % pod} would be left over")]
    if fabric.get("spine") is False and pod < hosts:
        text = f"without a spine the hosts of a pod (0 to {pod - 1}) have no path to the others; pod must be {hosts}"
        return [(("fabric", "spine"), text)]
    return []


def _overrides(value: Mapping[str, Any]) -> list[tuple[Place, str]]:
    items = value.get("overrides")
    errors: list[tuple[Place, str]] = []
    seen: set[tuple[int, int]] = set()
    for index, item in enumerate(items if isinstance(items, list) else []):
        if not isinstance(item, Mapping):
            continue
        for part, key in (("host", "hosts"), ("nic", "nics")):
            count, number = value.get(key, 8), item.get(part)
            if type(count) is int and type(number) is int and number >= count > 0:
                errors.append(
                    (("overrides", index, part), f"no {part} {number}: with {key}: {count} the last is {count - 1}")
                )
        host, nic = item.get("host"), item.get("nic")
        if type(host) is int and type(nic) is int:
            if (host, nic) in seen:
                errors.append((("overrides", index), f"NIC {nic} of host {host} is given twice"))
            seen.add((host, nic))
    return errors


def impossible(topology: Topology) -> list[tuple[Place, str]]:
    """Hosts with no path to the others, as built. What faults cut off is a state, not an error."""
    try:
        topology.costs_found  # noqa: B018 - whether there are any
    except UsageError as error:
        return [(("costs",), f"{error.message}; {error.hint}")]
    gone = [host for host, left in topology.as_built.items() if max(left) == 0]
    if gone:
        return [(("overrides",), f"{_names(gone)} no path to the others: all {topology.nics} NICs have capacity 0")]
    if topology.fabric.spine or topology.fabric.kind == "rack":
        return []
    return _islands(topology)


def _islands(topology: Topology) -> list[tuple[Place, str]]:
    """Rail-only: two hosts meet on a rail on which both have a working NIC."""
    first: dict[frozenset[int], int] = {}
    for host, left in topology.as_built.items():
        first.setdefault(frozenset(nic for nic, share in enumerate(left) if share > 0), host)
    kinds = sorted(first.items(), key=lambda item: item[1])
    return [
        (
            ("overrides",),
            f"hosts {one} and {two} have no path: rails are islands, and they share none on which both work",
        )
        for index, (rails, one) in enumerate(kinds)
        for others, two in kinds[index + 1 :]
        if not rails & others
    ]


def _names(hosts: list[int]) -> str:
    if len(hosts) == 1:
        return f"host {hosts[0]} has"
    named = ", ".join(map(str, hosts[:NAMED]))
    more = f" and {len(hosts) - NAMED} more" if len(hosts) > NAMED else ""
    return f"hosts {named}{more} have"
