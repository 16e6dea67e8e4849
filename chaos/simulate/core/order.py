"""Which states are alike. Hosts that are not whole stand as far apart as they can.

Hosts may change places, and so may rails where every NIC is home to as much: two states are alike when such moves make
one the other. `canonical` gives alike states one form, so that an answer does not depend on how things are numbered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Capacities = tuple[float, ...]
Rows = tuple[Capacities, ...]
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
    return _Labels(rows).best()


class _Labels:
    """The least form under all orders of hosts and rails: rails are told apart by what hosts have of them and hosts by
    what they have of rails, in turns; of rails that are still alike each is tried as the first."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._columns = list(zip(*rows, strict=True))

    def best(self) -> Rows:
        return self._least(self._refined([list(range(len(self._columns)))]))

    def _least(self, classes: Classes) -> Rows:
        found: list[Rows] = []
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
        return self._form(classes)

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

    def _form(self, classes: Classes) -> Rows:
        order = [nic for some in classes for nic in some]
        return tuple(sorted(tuple(row[nic] for nic in order) for row in self._rows))

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
