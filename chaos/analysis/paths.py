"""Which NICs carry a connection, and when: the net library's `path` lines matched to the bench's connections.

The two number connections on their own: the bench by rank, the net library by pair of processes. Where their numbers
agree (same host, direction, id and home NIC for all) they are used. Otherwise the connections of one host, direction,
peer and home NIC are matched in the order of their numbers, which both count up in the order of connecting.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from chaos.analysis.rundata import Connection, Key, Line, RunData

Stream = tuple[str, str, str]
"""As the net library names a receiving connection: host, peer's address, connection."""


def carriers(data: RunData, at_ns: int) -> list[Connection]:
    """The connections with the NICs that carried them at `at_ns`: as started, then as active paths moved them."""
    now = {connection.key: connection for connection in data.connections}
    matched = match(data)
    for line in _received(data):
        key = matched.get(_stream(line))
        if key is None or line["t_ns"] > at_ns or line["state"] != "active":
            continue
        sender = now[key].sender[0]
        now[key] = Connection(key, (line["host"], line["nic"]), (sender, _peer_nic(data, sender, line)))
    return list(now.values())


def match(data: RunData) -> dict[Stream, Key]:
    """Net library's connections to the bench's; those that cannot be told are left out."""
    homes: dict[Stream, str] = {}
    for line in _received(data):
        if line["nic"]:
            homes.setdefault(_stream(line), line.get("home_nic") or line["nic"])
    return _by_number(data, homes) or _by_order(data, homes)


def _by_number(data: RunData, homes: Mapping[Stream, str]) -> dict[Stream, Key] | None:
    """None unless every number means the same to both."""
    known = {(each.receiver[0], each.key[1]): each for each in data.connections}
    found: dict[Stream, Key] = {}
    for stream, home in homes.items():
        connection = known.get((stream[0], stream[2]))
        if connection is None or connection.receiver[1] != home or connection.key in found.values():
            return None
        found[stream] = connection.key
    return found


def _by_order(data: RunData, homes: Mapping[Stream, str]) -> dict[Stream, Key]:
    host_of_address = addresses(data)
    theirs: dict[tuple[str, str, str], list[Stream]] = defaultdict(list)
    for stream, home in homes.items():
        theirs[stream[0], host_of_address.get(stream[1], ""), home].append(stream)
    ours: dict[tuple[str, str, str], list[Key]] = defaultdict(list)
    for each in data.connections:
        peer = each.sender[0] if each.sender[0] in host_of_address.values() else ""
        ours[each.receiver[0], peer, each.receiver[1]].append(each.key)
    found: dict[Stream, Key] = {}
    for place, streams in theirs.items():
        keys = sorted(ours[place], key=lambda key: _number(key[1]))
        found.update(zip(sorted(streams, key=lambda stream: _number(stream[2])), keys, strict=False))
    return found


def addresses(data: RunData) -> dict[str, str]:
    """Which host has an address, as `run_start` says; empty when it does not."""
    line = next(iter(data.by_event.get("run_start", [])), {})
    nics: Mapping[str, Mapping[str, Mapping[str, Any]]] = line.get("nics", {})
    return {nic["address"]: host for host, names in nics.items() for nic in names.values() if "address" in nic}


def crowding(data: RunData, at_ns: int) -> float | None:
    """Connections on the most crowded NIC over those whose home it is, as `path` lines say; None without any."""
    homes: dict[tuple[str, str, str, str], str] = {}
    now: dict[tuple[str, str, str, str], str] = {}
    for line in data.by_event.get("path", []):
        end = (line["host"], line.get("direction", ""), str(line.get("peer", "")), str(line["connection"]))
        if line["t_ns"] > at_ns or line["state"] != "active" or not line["nic"]:
            continue
        homes.setdefault(end, line.get("home_nic") or line["nic"])
        now[end] = line["nic"]
    usual = Counter((end[0], end[1], nic) for end, nic in homes.items())
    carried = Counter((end[0], end[1], nic) for end, nic in now.items())
    return max((count / max(1, usual[place]) for place, count in carried.items()), default=None)


def _received(data: RunData) -> list[Line]:
    return [line for line in data.by_event.get("path", []) if line.get("direction") == "recv"]


def _stream(line: Line) -> Stream:
    return (line["host"], str(line.get("peer", "")), str(line["connection"]))


def _peer_nic(data: RunData, host: str, line: Line) -> str:
    """The sender's NIC: by name, by its place among the sender's NICs, or of the same name where nothing is said."""
    peer_nic = line.get("peer_nic")
    if isinstance(peer_nic, str) and peer_nic:
        return peer_nic
    names: list[str] = next(
        (start["nics"] for start in data.by_event.get("bench_start", []) if start["host"] == host), []
    )
    if isinstance(peer_nic, int) and 0 <= peer_nic < len(names):
        return str(names[peer_nic])
    return str(line["nic"])


def _number(text: str) -> tuple[int, str]:
    """Numbers in their order, other names in that of the alphabet after them."""
    return (int(text), "") if text.isdecimal() else (2**63, text)
