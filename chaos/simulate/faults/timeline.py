"""From a trace to intervals in which nothing changes.

Limits in series, so the least counts: a port has what the least of its own faults and its ToR's leaves; a NIC the mean
of its ports, at most what its own faults, its host's and the way it was built leave. A spine switch that is gone takes
its share of every ToR's uplinks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chaos.simulate.cluster.topology import Capacities, Topology, at_tor, tor_of
from chaos.simulate.faults.trace import DAY_S, PLACES, Fault, Trace, What
from harness.errors import InputErrors

State = tuple[tuple[int, Capacities], ...]
"""(host, what is left of its NICs) of the hosts that are not whole, by host; () is healthy."""

Where = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Interval:
    """`onset`: the faults that begin at `start_s`. `fabric`: what is left of the worst ToR's uplinks, 0..1."""

    start_s: float
    end_s: float
    state: State
    onset: tuple[Fault, ...] = ()
    fabric: float = 1.0


ENDS, BEGINS, ENDS_AT_ONCE = range(3)
"""What goes first at one time; the last is for durations that vanish beside the time itself."""


def timeline(trace: Trace, topology: Topology) -> list[Interval]:
    """Covers [0, days * 86400] without a gap. Raises InputErrors for faults at places that the topology has not."""
    if problems := misplaced(trace, topology):
        raise InputErrors(problems)
    board = _Board(topology)
    horizon = trace.days * DAY_S
    found: list[Interval] = []
    now = 0.0
    onset: list[Fault] = []
    for time, step, number in _events(trace, horizon):
        if time > now:
            _add(found, now, time, board, onset)
            now, onset = time, []
        fault = trace.faults[number]
        board.change(fault, step == BEGINS)
        if step == BEGINS:
            onset.append(fault)
    _add(found, now, horizon, board, onset)
    return found


def _events(trace: Trace, horizon: float) -> list[tuple[float, int, int]]:
    rows = []
    for number, fault in enumerate(trace.faults):
        start = fault.t_s
        end = start + fault.duration_s
        if start < horizon:
            rows.append((start, BEGINS, number))
            if end < horizon:
                rows.append((end, ENDS if end > start else ENDS_AT_ONCE, number))
    rows.sort()
    return rows


def _add(found: list[Interval], start_s: float, end_s: float, board: _Board, onset: list[Fault]) -> None:
    """What changes nothing, as the end of a fault behind a worse one, makes no interval of its own."""
    state = board.state()
    if found and not onset and found[-1].state == state and found[-1].fabric == board.fabric:
        last = found.pop()
        found.append(Interval(last.start_s, end_s, state, last.onset, last.fabric))
    else:
        found.append(Interval(start_s, end_s, state, tuple(onset), board.fabric))


class _Board:
    """What is broken now: by kind of place, the factors of the faults there. Only what a fault touches is made anew."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._broken: dict[str, dict[Where, list[float]]] = {what: {} for what in PLACES}
        self._hosts = list(topology.as_built)
        self._items = list(topology.as_built.items())
        self._state: State | None = None
        self.fabric = 1.0

    def state(self) -> State:
        if self._state is None:
            self._state = tuple(self._items)
        return self._state

    def change(self, fault: Fault, begins: bool) -> None:
        limits, where = self._broken[fault.what], fault.where
        if begins:
            limits.setdefault(where, []).append(fault.factor)
        else:
            limits[where].remove(fault.factor)
            if not limits[where]:
                del limits[where]
        if begins and (fault.what == "nic" or (fault.what == "port" and self._topology.ports == 1)):
            self._put(where[0], {where[1]: fault.factor})
        elif fault.what == "spine":
            self.fabric = fabric_left(self._broken["spine"], self._topology.fabric.spines)
        else:
            self._touch(fault.what, where)

    def _touch(self, what: What, where: Where) -> None:
        if what in ("nic", "port"):
            self._again(where[0], where[1:2])
        elif what == "host":
            self._again(where[0], range(self._topology.nics))
        else:
            nics: dict[int, list[int]] = {}
            for host, nic, _ in at_tor(self._topology, where[0]):
                nics.setdefault(host, []).append(nic)
            for host, some in nics.items():
                self._again(host, some)

    def _again(self, host: int, nics: Iterable[int]) -> None:
        self._put(host, {nic: self._left(host, nic) for nic in nics}, less=False)

    def _put(self, host: int, new: Mapping[int, float], less: bool = True) -> None:
        """`less`: at most what they had."""
        place = bisect_left(self._hosts, host)
        known = place < len(self._hosts) and self._hosts[place] == host
        left = list(self._items[place][1]) if known else [1.0] * self._topology.nics
        for nic, factor in new.items():
            left[nic] = min(left[nic], factor) if less else factor
        self._state = None
        if min(left) < 1.0:
            if not known:
                self._hosts.insert(place, host)
            self._items[place : place + known] = [(host, tuple(left))]
        elif known:
            del self._hosts[place], self._items[place]

    def _left(self, host: int, nic: int) -> float:
        topology = self._topology
        built = topology.as_built.get(host)
        limits: list[float] = [built[nic] if built else 1.0]
        limits += self._broken["host"].get((host,), ())
        limits += self._broken["nic"].get((host, nic), ())
        if self._broken["port"] or self._broken["tor"]:
            limits.append(sum(self._through(host, nic, port) for port in range(topology.ports)) / topology.ports)
        return min(limits)

    def _through(self, host: int, nic: int, port: int) -> float:
        limits: list[float] = [1.0, *self._broken["port"].get((host, nic, port), ())]
        if self._broken["tor"]:
            limits += self._broken["tor"].get((tor_of(self._topology, host, nic, port),), ())
        return min(limits)


def fabric_left(limits: Mapping[Where, Sequence[float]], spines: int) -> float:
    """Of the ToR that lost most: by (spine,) what spines have left, by (spine, tor) that ToR's uplinks to them."""
    if not limits:
        return 1.0
    gone = {where[0]: 1.0 - min(factors) for where, factors in limits.items() if len(where) == 1}
    lost = {-1: gone}
    for where, factors in limits.items():
        if len(where) == 2:
            of_tor = lost.setdefault(where[1], dict(gone))
            of_tor[where[0]] = max(of_tor.get(where[0], 0.0), 1.0 - min(factors))
    most: float = max(sum(of_tor.values()) for of_tor in lost.values())
    return float(1.0 - most / spines)


def misplaced(trace: Trace, topology: Topology) -> list[str]:
    """Faults of hosts, NICs, ports, ToRs or spines that are not there."""
    places = {(fault.what, fault.where) for fault in trace.faults}
    wrong = {place for place in places if not _there(*place, topology)}
    if not wrong:
        return []
    return [
        f"fault {number} ({fault.what} {list(fault.where)}): {topology.name} has no such {fault.what}"
        for number, fault in enumerate(trace.faults)
        if (fault.what, fault.where) in wrong
    ]


def _there(what: What, where: Where, topology: Topology) -> bool:
    sizes = {
        "nic": (topology.hosts, topology.nics),
        "port": (topology.hosts, topology.nics, topology.ports),
        "tor": (topology.tors,),
        "spine": (topology.fabric.spines if topology.fabric.spine else 0, topology.tors),
        "host": (topology.hosts,),
    }
    return all(part < size for part, size in zip(where, sizes[what], strict=False))
