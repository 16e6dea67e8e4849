"""What of a cluster's state decides an iteration's time: the same key, the same time.

Groups of hosts are alike, so which of them has a fault does not matter, nor does the NICs' order, as long as faults of
one rail stay on one rail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from chaos.simulate.core import order as core_order
from chaos.simulate.training.layout import Placement

Capacities = tuple[float, ...]
Group = tuple[Capacities, ...]


class Key(NamedTuple):
    """`groups`: the different groups that are not whole. `hosts`: what hosts have left, each kind once, NICs sorted."""

    groups: tuple[Group, ...]
    hosts: tuple[Capacities, ...]
    replicas_lost: int


HEALTHY = Key((), (), 0)
STEP = 0.05
"""Of what a slower NIC has left, in jobs: half a step is 0.3 % of a host with eight."""


def canonical(hosts: Sequence[Capacities]) -> Group:
    """Whole hosts dropped; rails and hosts in an order that does not depend on their numbers."""
    return core_order.canonical(tuple(left for left in hosts if min(left) < 1), alike=True)


def rounded(share: float) -> float:
    """To the nearest STEP; what is not gone stays, and what is not whole is not."""
    if share in {0.0, 1.0}:
        return share
    return min(max(round(share / STEP), 1), round(1 / STEP) - 1) * STEP


class StateKeys:
    """Makes keys, and numbers them in the order in which they are met."""

    def __init__(self, placement: Placement, nics: int) -> None:
        self._placement, self._nics = placement, nics
        self._groups: dict[tuple[Capacities, ...], Group] = {}
        self._sorted: dict[Capacities, Capacities] = {}
        self._rounded: dict[Capacities, Capacities] = {}
        self._numbers: dict[Key, int] = {HEALTHY: 0}
        self.all: list[Key] = [HEALTHY]

    def number(self, state: Sequence[tuple[int, Capacities]]) -> int:
        """Of a job's state, whose NICs that are only slower are rounded, so that few states differ (STEP)."""
        key = self.key([(host, self._round(left)) for host, left in state])
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.all)
            self.all.append(key)
        return found

    def key(self, state: Sequence[tuple[int, Capacities]]) -> Key:
        if not state:
            return HEALTHY
        groups: dict[int, list[Capacities]] = {}
        hosts: set[Capacities] = set()
        lost: set[int] = set()
        for host, left in state:
            groups.setdefault(self._placement.group(host), []).append(left)
            hosts.add(self._sort(left))
            if 0.0 in left:
                lost.update(self._replicas(host, left))
        made = {self._canonical(tuple(rows)) for rows in groups.values()}
        return Key(tuple(sorted(made)), tuple(sorted(hosts)), len(lost))

    def _replicas(self, host: int, left: Capacities) -> set[int]:
        """Whose GPUs are at home on NICs that are gone."""
        return {self._placement.replica(host, nic / self._nics) for nic, share in enumerate(left) if share == 0}

    def _round(self, left: Capacities) -> Capacities:
        found = self._rounded.get(left)
        if found is None:
            found = self._rounded[left] = tuple(rounded(share) for share in left)
        return found

    def _sort(self, left: Capacities) -> Capacities:
        found = self._sorted.get(left)
        if found is None:
            found = self._sorted[left] = tuple(sorted(left))
        return found

    def _canonical(self, rows: tuple[Capacities, ...]) -> Group:
        if len(rows) == 1:
            return (self._sort(rows[0]),)
        found = self._groups.get(rows)
        if found is None:
            found = self._groups[rows] = canonical(rows)
        return found
