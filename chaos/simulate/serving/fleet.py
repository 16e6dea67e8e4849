"""Which hosts each instance is on, and what of their NICs it can use."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from chaos.simulate.cluster.arms import Arm, Left
from chaos.simulate.faults.timeline import Interval
from chaos.simulate.serving.outages import left_of
from chaos.simulate.serving.pace import Capacities, Pace, Paces
from chaos.simulate.serving.service import Service


class Fleet:
    """`state`: what is left of the hosts that are not whole. An instance that was restarted on what there was uses the
    NICs that it began with, until it is restarted again (`begun`)."""

    def __init__(self, service: Service, of: Arm, paces: Paces, intervals: Sequence[Interval]) -> None:
        self.service, self.arm, self.paces, self.intervals = service, of, paces, intervals
        self.starts_s = [interval.start_s for interval in intervals]
        self.state: Mapping[int, Capacities] = {}
        self.hosts = [list(service.hosts_of(number)) for number in range(service.instances)]
        self.begun: dict[int, tuple[Capacities, ...]] = {}

    def left(self, number: int) -> tuple[Capacities, ...]:
        """Of an instance's hosts, in their order, as far as it uses them."""
        now = tuple(self.state.get(host, self.paces.whole) for host in self.hosts[number])
        begun = self.begun.get(number)
        if begun is None:
            return now
        return tuple(tuple(map(min, one, other)) for one, other in zip(now, begun, strict=True))

    def pace(self, number: int) -> Pace | None:
        """One that restarted without some NICs runs over the next ones, as NCCL that never saw them."""
        return self.paces.pace(self.arm.name, self.left(number), "migrate" if number in self.begun else None)

    def rate(self, number: int) -> float:
        """Bytes a second for caches that move: by the slowest of its hosts."""
        return min(self.paces.rate(self.arm.name, left) for left in self.left(number))

    def lefts(self, number: int, fault: Any, before: Mapping[int, Capacities]) -> list[Left]:
        """What a fault that begins now left each host that the instance is on and that it hit."""
        found = []
        begun = self.begun.get(number)
        for place, host in enumerate(self.hosts[number]):
            now, then = self.state.get(host, self.paces.whole), before.get(host, self.paces.whole)
            if fault.what in ("nic", "port", "host") and int(fault.where[0]) != host:
                continue
            if sum(now) >= sum(then) and not self._repeats(fault, now):
                continue
            if begun and fault.what == "nic" and begun[place][int(fault.where[1])] == 0:
                continue
            found.append(left_of(fault, now))
        return found

    @staticmethod
    def _repeats(fault: Any, now: Sequence[float]) -> bool:
        return fault.what == "nic" and fault.factor == 0 and now[int(fault.where[1])] == 0

    def settle(self, number: int, now_s: float) -> float:
        """Hosts that are not whole are replaced by spares that are, as far as there are some. Returns when it can
        start: now, or once every host has a NIC again (inf: never)."""
        taken = {host for hosts in self.hosts for host in hosts}
        spares = [host for host in range(self.service.topology.hosts) if host not in taken and host not in self.state]
        for place, host in enumerate(self.hosts[number]):
            if host in self.state and spares:
                self.hosts[number][place] = spares.pop(0)
        return self._reached_s(self.hosts[number], now_s)

    def _reached_s(self, hosts: Sequence[int], now_s: float) -> float:
        cut = [host for host in hosts if not any(self.state.get(host, self.paces.whole))]
        if not cut or not self.service.on_nics:
            return now_s
        for interval in self.intervals[bisect_right(self.starts_s, now_s) :]:
            state = dict(interval.state)
            if all(any(state.get(host, self.paces.whole)) for host in hosts):
                return float(interval.start_s)
        return inf

    def begin(self, number: int) -> None:
        """It makes its connections now."""
        now = tuple(self.state.get(host, self.paces.whole) for host in self.hosts[number])
        self.begun.pop(number, None)
        if self.arm.nic == "restart" and any(left != self.paces.whole for left in now):
            self.begun[number] = now
