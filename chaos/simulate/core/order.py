"""Which states are alike, and whose bytes are whose. Hosts that are not whole stand as far apart as they can.

Hosts may change places, and so may rails where every NIC is home to as much: two states are alike when such moves make
one the other. `canonical` gives alike states one form, so that an answer does not depend on how things are numbered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

Capacities = tuple[float, ...]
Rows = tuple[Capacities, ...]
PerNic = tuple[tuple[float, ...], ...]
Bytes = tuple[PerNic, PerNic]
Classes = list[list[int]]
"""NICs that cannot be told apart so far, in an order that does not depend on their numbers."""

HOME_ARMS = ("stock", "upstream", "kv_replication")


def rails_alike(arm: str, groups: int, nics: int) -> bool:
    """Not for `migrate`, which takes the *next* NIC; nor where groups at home on NICs load these unevenly."""
    if arm in HOME_ARMS:
        return nics % groups == 0 or groups % nics == 0
    return arm != "migrate"


def canonical(rows: Rows, alike: bool) -> Rows:
    """`alike`: rails are."""
    if not rows or not alike:
        return tuple(sorted(rows))
    if len(rows) == 1:
        return (tuple(sorted(rows[0])),)
    return _Labels(rows).best()[0]


def rails_of(rows: Rows, alike: bool) -> Sequence[int]:
    """Which NIC of `rows` each NIC of the canonical rows is."""
    if not rows or not alike:
        return range(len(rows[0]) if rows else 0)
    if len(rows) == 1:
        return sorted(range(len(rows[0])), key=lambda nic: rows[0][nic])
    return _Labels(rows).best()[1]


class _Labels:
    """The least form under all orders of hosts and rails: rails are told apart by what hosts have of them and hosts by
    what they have of rails, in turns; of rails that are still alike each is tried as the first."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._columns = list(zip(*rows, strict=True))

    def best(self) -> tuple[Rows, list[int]]:
        return self._least(self._refined([list(range(len(self._columns)))]))

    def _least(self, classes: Classes) -> tuple[Rows, list[int]]:
        found: list[tuple[Rows, list[int]]] = []
        begun: set[Rows] = set()
        for split in self._tries(classes):
            first = self._first(split)
            if first in begun:  # a move of hosts and rails makes this one an earlier one, so all its forms are alike
                continue
            begun.add(first)
            found.append(self._least(split))
        return min(found, default=self._form(classes))

    def _first(self, classes: Classes) -> Rows:
        for split in self._tries(classes):
            return self._first(split)
        return self._form(classes)[0]

    def _tries(self, classes: Classes) -> Iterator[Classes]:
        """Of the first class whose NICs differ: each of them alone before the others."""
        columns = self._columns
        for place, some in enumerate(classes):
            if all(columns[nic] == columns[some[0]] for nic in some[1:]):
                continue
            for nic in some:
                rest = [other for other in some if other != nic]
                yield self._refined([*classes[:place], [nic], rest, *classes[place + 1 :]])
            return

    def _form(self, classes: Classes) -> tuple[Rows, list[int]]:
        order = [nic for some in classes for nic in some]
        return tuple(sorted(tuple(row[nic] for nic in order) for row in self._rows)), order

    def _refined(self, classes: Classes) -> Classes:
        while True:
            hosts = _ranks(tuple(tuple(sorted(row[nic] for nic in some)) for some in classes) for row in self._rows)
            split: Classes = []
            for some in classes:
                seen = {nic: sorted(zip(hosts, self._columns[nic], strict=True)) for nic in some}
                kinds = _ranks(tuple(seen[nic]) for nic in some)
                split += [
                    [nic for nic, kind in zip(some, kinds, strict=True) if kind == wanted]
                    for wanted in range(max(kinds) + 1)
                ]
            if len(split) == len(classes):
                return split
            classes = split


def _ranks(keys: Iterable[object]) -> list[int]:
    """Of each key its place among the different ones."""
    given = list(keys)
    places = {key: place for place, key in enumerate(sorted(set(given)))}  # type: ignore[type-var]
    return [places[key] for key in given]


def places(hosts: int, count: int) -> list[int]:
    """Where `count` hosts of so many stand."""
    return [index * hosts // count for index in range(count)]


def as_given(made: Bytes, nodes: Sequence[Capacities], rows: Rows, alike: bool) -> Bytes:
    """The canonical state's bytes, for hosts and NICs as given. `rows`: those of `nodes` that are not whole."""
    order = rails_of(rows, alike)
    free: dict[Capacities, list[int]] = {}
    taken = places(len(nodes), len(rows))
    solved = [tuple(row[nic] for nic in order) for row in rows]
    for place, left in reversed(list(zip(taken, sorted(solved), strict=True))):
        free.setdefault(left, []).append(place)
    whole = iter(sorted(set(range(len(nodes))) - set(taken)))
    hosts: list[int] = []
    for left in nodes:
        mine = tuple(left[nic] for nic in order)
        hosts.append(free[mine].pop() if free.get(mine) else next(whole))
    back = sorted(range(len(order)), key=lambda place: order[place])
    tx, rx = (tuple(tuple(side[host][nic] for nic in back) for host in hosts) for side in made)
    return tx, rx
