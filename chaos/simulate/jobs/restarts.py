"""A job's life between restarts: when it dies, when it is back, and which hosts spares stand in for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from chaos.simulate.cluster.arms import Arm, runs_with
from chaos.simulate.jobs.course import Course, course
from chaos.simulate.jobs.rates import Blows, Rates
from chaos.simulate.training.prepared import Prepared, State
from chaos.simulate.training.statekey import StateKeys


@dataclass(slots=True)
class Life:
    """Spans of time in which the job was up, each with whether it ended in a restart, and what came between."""

    spans: list[tuple[float, float, bool, Course]] = field(default_factory=list)
    down_s: float = 0.0
    waited_s: float = 0.0
    restarts: int = 0
    spares_used: int = 0


class Restarts:
    """Walks through the events that end the job; `replaced` says until when a spare stands in for a host."""

    def __init__(
        self, of: Arm, prepared: Prepared, blows: Blows, rates: Rates, *, keys: StateKeys, spares: int
    ) -> None:
        self._arm, self._prepared, self._rates, self._keys, self._spares = of, prepared, rates, keys, spares
        self._stalls_s, self._backs_s, self._fatal = blows.stalls_s, blows.backs_s, blows.fatal
        self._numbers = prepared.keys
        self._replaced: dict[int, float] = {}
        self._times = prepared.starts[prepared.event_interval] if len(prepared.event_interval) else np.zeros(0)

    def live(self, restart_s: float) -> Life:
        life, up_s, end_s = Life(), float(self._prepared.starts[0]), float(self._prepared.ends[-1])
        now = self._course()
        for event in np.flatnonzero(self._fatal):
            died_s = float(self._times[event])
            if died_s < up_s or not self._fatal[event]:
                continue
            life.spans.append((up_s, died_s, True, now))
            life.restarts += 1
            up_s = self._back(int(event), died_s + restart_s, life)
            life.down_s += min(up_s, end_s) - died_s
            if up_s >= end_s:
                return life
            now = self._course()
        life.spans.append((up_s, end_s, False, now))
        return life

    def _course(self) -> Course:
        rates = self._rates.of(self._numbers) * self._prepared.joined
        return course(self._prepared, rates, self._stalls_s, self._backs_s)

    def _back(self, event: int, ready_s: float, life: Life) -> float:
        """When the job runs again: once there are spares for the hosts that it cannot run with, or these are whole.

        Spares that are left replace hosts that it could run with, and that are not whole since what ended it."""
        hit, end_s = self._prepared.hosts_hit(event), float(self._prepared.ends[-1])
        up_s = ready_s
        while up_s < end_s:
            interval = int(np.searchsorted(self._prepared.starts, up_s, side="right")) - 1
            broken, slower = self._broken(interval, up_s, hit)
            out = [until for until in self._replaced.values() if until > up_s]
            free = self._spares - len(out)
            if self._prepared.joined[interval] and len(broken) <= free:
                replaced = [*broken, *slower][:free]
                self._replace(replaced, interval, up_s)
                life.spares_used += len(replaced)
                break
            up_s = min([float(self._prepared.ends[interval]), *out])
        life.waited_s += max(0.0, min(up_s, end_s) - ready_s)
        return up_s

    def _broken(self, interval: int, time_s: float, hit: set[int]) -> tuple[list[int], list[int]]:
        """Hosts that this arm cannot use, and those of `hit` that are not whole yet."""
        state = self._prepared.states[interval]
        there = [(host, left) for host, left in state if self._replaced.get(host, 0.0) <= time_s]
        broken = [host for host, left in there if not runs_with(self._arm, left)]
        return broken, [host for host, _ in there if host in hit and host not in broken]

    def _replace(self, hosts: list[int], interval: int, time_s: float) -> None:
        """Until they are whole again, what happens to these hosts does not happen to the job."""
        if not hosts:
            return
        self._numbers = self._numbers.copy()
        missing, last = set(hosts), interval
        for number in range(interval, len(self._numbers)):
            there = {host for host, _ in self._prepared.states[number]}
            for host in missing - there:
                self._replaced[host] = float(self._prepared.starts[number])
            missing &= there
            if not missing:
                break
            last = number
        self._replaced.update(dict.fromkeys(missing, float(self._prepared.ends[-1])))
        for number in range(interval, last + 1):
            self._numbers[number] = self._keys.number(self._seen(number, time_s))
        self._ignore(hosts, time_s)

    def _seen(self, number: int, time_s: float) -> State:
        """A state without the hosts that spares stand in for."""
        begins_s = max(float(self._prepared.starts[number]), time_s)
        return tuple(
            (host, left) for host, left in self._prepared.states[number] if self._replaced.get(host, 0.0) <= begins_s
        )

    def _ignore(self, hosts: list[int], time_s: float) -> None:
        times, where = self._times, self._prepared.event_host
        gone = np.zeros(len(times), dtype=bool)
        for host in hosts:
            gone |= (where == host) & (times >= time_s) & (times < self._replaced[host])
        self._fatal = self._fatal & ~gone
        self._stalls_s = np.where(gone, 0.0, self._stalls_s)
        self._backs_s = np.where(gone, 0.0, self._backs_s)
