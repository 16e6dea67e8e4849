"""Which states are alike, and whose bytes are whose. Hosts that are not whole stand as far apart as they can."""

from __future__ import annotations

from collections.abc import Sequence

Capacities = tuple[float, ...]
Rows = tuple[Capacities, ...]
PerNic = tuple[tuple[float, ...], ...]
Bytes = tuple[PerNic, PerNic]


def canonical(rows: Rows, arm: str) -> Rows:
    """Sorted, and rails too where their order means nothing: `migrate` takes the *next* NIC."""
    if not rows or arm == "migrate":
        return tuple(sorted(rows))
    if len(rows) == 1:
        return (tuple(sorted(rows[0])),)
    columns = sorted(zip(*sorted(rows, key=sorted), strict=True))
    return tuple(sorted(zip(*columns, strict=True)))


def rails_of(rows: Rows, arm: str) -> list[int]:
    """Which NIC of the canonical rows each NIC of `rows` became."""
    count = len(rows[0])
    if arm == "migrate":
        return list(range(count))
    ordered = sorted(rows, key=sorted)
    by_column = sorted(range(count), key=lambda nic: tuple(row[nic] for row in ordered))
    found = [0] * count
    for place, nic in enumerate(by_column):
        found[nic] = place
    return found


def places(hosts: int, count: int) -> list[int]:
    """Where `count` hosts of so many stand."""
    return [index * hosts // count for index in range(count)]


def as_given(made: Bytes, nodes: Sequence[Capacities], rows: Rows, arm: str) -> Bytes:
    """The canonical state's bytes, for hosts and NICs as given. `rows`: those of `nodes` that are not whole."""
    rails = rails_of(rows, arm)
    free: dict[Capacities, list[int]] = {}
    taken = places(len(nodes), len(rows))
    for place, left in reversed(list(zip(taken, canonical(rows, arm), strict=True))):
        free.setdefault(left, []).append(place)
    whole = iter(sorted(set(range(len(nodes))) - set(taken)))
    back = sorted(range(len(rails)), key=lambda nic: rails[nic])
    hosts: list[int] = []
    for left in nodes:
        solved = tuple(left[nic] for nic in back)
        hosts.append(free[solved].pop() if free.get(solved) else next(whole))
    tx, rx = (tuple(tuple(side[host][nic] for nic in rails) for host in hosts) for side in made)
    return tx, rx
