"""From a trace to intervals in which nothing changes.

Limits in series, so the least counts: a port has what the least of its own faults and its ToR's leaves; a NIC the mean of
its ports, at most what its own faults, its host's and the way it was built leave. A spine switch that is gone takes its
share of every ToR's uplinks.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from operator import attrgetter

from chaos.simulate.topology import Capacities, Topology, at_tor, tor_of
from chaos.simulate.trace import DAY_S, Fault, Trace
from harness.errors import InputErrors

State = tuple[tuple[int, Capacities], ...]
"""(host, what is left of its NICs) of the hosts that are not whole, by host; () is healthy."""

Key = tuple[int, ...]
NIC, PORT, TOR, SPINE, HOST = range(5)
CODE = {"nic": NIC, "port": PORT, "tor": TOR, "spine": SPINE, "host": HOST}


@dataclass(frozen=True, slots=True)
class Interval:
    """`onset`: the faults that begin at `start_s`. `fabric`: what is left of the worst ToR's uplinks, 0..1."""

    start_s: float
    end_s: float
    state: State
    onset: tuple[Fault, ...] = ()
    fabric: float = 1.0


def timeline(trace: Trace, topology: Topology) -> list[Interval]:
    """Covers [0, days * 86400] without a gap. Raises InputErrors for faults at places that the topology has not."""
    if problems := misplaced(trace, topology):
        raise InputErrors(problems)
    return _walk(trace, _Board(topology))


def _walk(trace: Trace, board: _Board) -> list[Interval]:
    horizon = trace.days * DAY_S
    begins = [fault for fault in trace.faults if fault.t_s < horizon]
    ends = sorted((fault for fault in begins if fault.t_s + fault.duration_s < horizon), key=attrgetter("end_s"))
    found: list[Interval] = []
    now, begun, ended = 0.0, 0, 0
    while now < horizon:
        onset: tuple[Fault, ...] = ()
        while ended < len(ends) and ends[ended].t_s + ends[ended].duration_s <= now:
            board.end(ends[ended])
            ended += 1
        while begun < len(begins) and begins[begun].t_s <= now:
            board.begin(begins[begun])
            onset += (begins[begun],)
            begun += 1
        after = min(
            begins[begun].t_s if begun < len(begins) else horizon,
            ends[ended].t_s + ends[ended].duration_s if ended < len(ends) else horizon,
        )
        state, fabric = board.state(), board.fabric
        if found and not onset and found[-1].state == state and found[-1].fabric == fabric:
            found[-1] = Interval(found[-1].start_s, after, state, found[-1].onset, fabric)
        else:
            found.append(Interval(now, after, state, onset, fabric))
        now = after
    return found


class _Board:
    """What is broken now. Only what a fault touches is computed anew."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._limits: dict[Key, list[float]] = {}
        self._hosts: list[int] = list(topology.as_built)
        self._items: list[tuple[int, Capacities]] = list(topology.as_built.items())
        self.fabric = 1.0

    def state(self) -> State:
        return tuple(self._items)

    def begin(self, fault: Fault) -> None:
        key = (CODE[fault.what], *fault.where)
        self._limits.setdefault(key, []).append(fault.factor)
        self._touch(key)

    def end(self, fault: Fault) -> None:
        key = (CODE[fault.what], *fault.where)
        factors = self._limits[key]
        factors.remove(fault.factor)
        if not factors:
            del self._limits[key]
        self._touch(key)

    def _touch(self, key: Key) -> None:
        code = key[0]
        if code in (NIC, PORT):
            self._update(key[1], (key[2],))
        elif code == HOST:
            self._update(key[1], range(self._topology.nics))
        elif code == TOR:
            nics: dict[int, list[int]] = {}
            for host, nic, _ in at_tor(self._topology, key[1]):
                nics.setdefault(host, []).append(nic)
            for host, some in nics.items():
                self._update(host, some)
        else:
            self.fabric = self._fabric()

    def _update(self, host: int, nics: range | list[int] | tuple[int, ...]) -> None:
        place = bisect_left(self._hosts, host)
        known = place < len(self._hosts) and self._hosts[place] == host
        left = list(self._items[place][1]) if known else [1.0] * self._topology.nics
        for nic in nics:
            left[nic] = self._nic(host, nic)
        if min(left) >= 1.0:
            if known:
                del self._hosts[place], self._items[place]
        elif known:
            self._items[place] = (host, tuple(left))
        else:
            self._hosts.insert(place, host)
            self._items.insert(place, (host, tuple(left)))

    def _nic(self, host: int, nic: int) -> float:
        topology, ports = self._topology, self._topology.ports
        built = topology.as_built.get(host)
        left = built[nic] if built else 1.0
        left = min(left, self._least((HOST, host)), self._least((NIC, host, nic)))
        through = 0.0
        for port in range(ports):
            tor = tor_of(topology, host, nic, port)
            through += min(self._least((PORT, host, nic, port)), self._least((TOR, tor)))
        return min(left, through / ports)

    def _least(self, key: Key) -> float:
        factors = self._limits.get(key)
        return min(factors) if factors else 1.0

    def _fabric(self) -> float:
        """Of the ToR that lost most: spines that are gone, and its own uplinks."""
        spines = {key[1]: min(factors) for key, factors in self._limits.items() if key[0] == SPINE and len(key) == 2}
        lost = {-1: {spine: 1.0 - factor for spine, factor in spines.items()}}
        for key, factors in self._limits.items():
            if key[0] == SPINE and len(key) == 3:
                of_tor = lost.setdefault(key[2], dict(lost[-1]))
                of_tor[key[1]] = max(of_tor.get(key[1], 0.0), 1.0 - min(factors))
        return 1.0 - max(sum(of_tor.values()) for of_tor in lost.values()) / self._topology.fabric.spines


def misplaced(trace: Trace, topology: Topology) -> list[str]:
    """Faults of hosts, NICs, ports, ToRs or spines that are not there."""
    hosts, nics, ports = topology.hosts, topology.nics, topology.ports
    spines, tors = topology.fabric.spines, topology.tors
    sizes = {
        "nic": (hosts, nics),
        "port": (hosts, nics, ports),
        "tor": (tors,),
        "spine": (spines, tors),
        "host": (hosts,),
    }
    return [
        f"fault {number} ({fault.what} {list(fault.where)}): {topology.name} has no such {fault.what}"
        for number, fault in enumerate(trace.faults)
        if any(part >= size for part, size in zip(fault.where, sizes[fault.what], strict=False))
        or (fault.what == "spine" and not topology.fabric.spine)
    ]
