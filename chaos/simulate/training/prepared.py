"""A trace's intervals as arrays, made once and used for every arm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chaos.simulate.cluster.arms import Left
from chaos.simulate.training.statekey import Capacities, StateKeys

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
State = tuple[tuple[int, Capacities], ...]
CASES = tuple((left, silent) for silent in (False, True) for left in Left)
CODES = {case: code for code, case in enumerate(CASES)}
"""What a fault leaves, and whether nobody is told: numbered, as arrays hold numbers."""
MANY = -1
"""Host of an event that hits several."""


@dataclass(frozen=True, slots=True)
class Event:
    """One fault's onset: at the start of `interval`, on `host` (or MANY), which it leaves as `CASES[code]` says."""

    interval: int
    code: int
    duration_s: float
    host: int
    process: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """`keys` are the numbers that StateKeys gives each interval's state. Arrays named `event_*` are parallel.

    `joined`: whether the spines leave the fabric in one piece. How much they leave counts for nothing here: rings and
    chains go up to them once a pod, and there is the bandwidth of all its NICs over the oversubscription."""

    starts: Floats
    ends: Floats
    joined: npt.NDArray[np.bool_]
    keys: Ints
    states: tuple[State, ...]
    event_interval: Ints
    event_code: Ints
    event_duration_s: Floats
    event_host: Ints
    event_process: Ints
    back_interval: Ints
    processes: tuple[str, ...]

    @property
    def wall_s(self) -> float:
        return float(self.ends[-1] - self.starts[0])

    def hosts_hit(self, event: int) -> set[int]:
        """Hosts of an event; of one that hits many, those that lost something at its interval's start."""
        host = int(self.event_host[event])
        if host != MANY:
            return {host}
        interval = int(self.event_interval[event])
        return set(_dropped(self.states, interval))


def prepare(intervals: Sequence[Any], keys: StateKeys) -> Prepared:
    """`intervals` as chaos.simulate.faults.timeline makes them: without gaps, from the start to the end."""
    states = tuple(interval.state for interval in intervals)
    starts = np.array([interval.start_s for interval in intervals], dtype=np.float64)
    ends = np.array([interval.end_s for interval in intervals], dtype=np.float64)
    events = list(_events(intervals, states))
    processes = tuple(dict.fromkeys(event.process for event in events))
    numbers = {process: number for number, process in enumerate(processes)}
    at = np.array([event.interval for event in events], dtype=np.int64)
    durations = np.array([event.duration_s for event in events], dtype=np.float64)
    return Prepared(
        starts=starts,
        ends=ends,
        joined=np.array([interval.fabric > 0 for interval in intervals], dtype=np.bool_),
        keys=np.array([keys.number(state) for state in states], dtype=np.int64),
        states=states,
        event_interval=at,
        event_code=np.array([event.code for event in events], dtype=np.int64),
        event_duration_s=durations,
        event_host=np.array([event.host for event in events], dtype=np.int64),
        event_process=np.array([numbers[event.process] for event in events], dtype=np.int64),
        back_interval=np.searchsorted(starts, (starts[at] if len(at) else durations) + durations - 1e-6),
        processes=processes,
    )


def _events(intervals: Sequence[Any], states: Sequence[State]) -> Iterator[Event]:
    for number, interval in enumerate(intervals):
        for fault in interval.onset:
            if fault.what in ("nic", "port", "host"):
                host = int(fault.where[0])
                left = dict(states[number]).get(host)
                if left is None:
                    continue
                yield Event(number, _code(fault, left), fault.duration_s, host, fault.process)
            elif fault.what == "spine":
                code = CODES[Left.SLOWER if interval.fabric > 0 else Left.NOTHING, False]
                yield Event(number, code, fault.duration_s, MANY, fault.process)
            elif dropped := _dropped(states, number):
                worst = max(_code(fault, left) for left in dropped.values())
                yield Event(number, worst, fault.duration_s, MANY, fault.process)


def _dropped(states: Sequence[State], number: int) -> dict[int, Capacities]:
    """Hosts that have less than in the interval before."""
    before = dict(states[number - 1]) if number else {}
    whole: Capacities = ()
    now = states[number]
    return {host: left for host, left in now if sum(left) < sum(before.get(host, whole) or (1.0,) * len(left))}


def _code(fault: Any, left: Capacities) -> int:
    """What it leaves the host, in order of harm."""
    return CODES[_left(fault, left), fault.silent]


def _left(fault: Any, left: Capacities) -> Left:
    if fault.factor > 0:
        return Left.SLOWER
    if not any(left):
        return Left.NOTHING
    if fault.what == "port":
        return Left.PORT if left[int(fault.where[1])] > 0 else Left.NIC
    return Left.NIC if 0.0 in left else Left.PORT
