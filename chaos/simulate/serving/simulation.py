"""Requests over instances while faults come and go: arrivals, KV caches that move, restarts, in the order of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from math import inf
from typing import Any

from chaos.simulate.cluster.arms import arm
from chaos.simulate.faults.timeline import Interval
from chaos.simulate.serving import outages
from chaos.simulate.serving.fleet import Fleet
from chaos.simulate.serving.instance import Book, Instance
from chaos.simulate.serving.load import Requests, draw
from chaos.simulate.serving.pace import Paces
from chaos.simulate.serving.result import ServingResult, result
from chaos.simulate.serving.service import Service, check


@dataclass(slots=True)
class Tally:
    outages_s: list[float] = field(default_factory=list)
    restarts: int = 0
    moved_bytes: float = 0.0


def simulate(
    service: Service,
    name: str,
    intervals: Sequence[Interval],
    solver: Any,
    params: Any,
    *,
    seed: int,
    requests: Requests | None = None,
    paces: Paces | None = None,
    fast: bool = True,
) -> ServingResult:
    """One arm over one trace's intervals (chaos.simulate.faults.timeline; none: nothing fails). The last state stays.

    `seed`: of the requests, or `requests` themselves. `paces`: of the same service, solver and parameters, to share
    what was solved. Raises InputErrors for a service that does not fit, UsageError for an arm that there is not."""
    check(service, params)
    asked = requests or draw(service.requests, service.rate, service.prompt, service.output, seed)
    known = paces or Paces(service, solver, params)
    return _Run(known, name, asked, intervals, fast=fast).run()


class _Run:
    def __init__(self, paces: Paces, name: str, asked: Requests, intervals: Sequence[Interval], *, fast: bool) -> None:
        self.arm, self.asked = arm(name), asked
        self.service, self.params = service, params = paces.service, paces.params
        self.book = Book(asked.arrival_s.tolist(), asked.prompt.tolist(), asked.output.tolist())
        self.fleet = Fleet(service, self.arm, paces, intervals)
        self.tally = Tally()
        capacity = service.capacity(params)
        self.instances = [
            Instance(
                self.book, self.fleet.pace(number), capacity, batch=service.max_batch, budget=service.budget,
                role=service.role(number), fast=fast,
            )
            for number in range(service.instances)
        ]  # fmt: skip
        self.capacity = capacity
        self.hit: set[int] = set()
        """Instances that die, or are down."""
        self.out: set[int] = set()
        """Those of them of which it is known: nobody is sent there if there are others."""
        self.links_s = [0.0] * service.instances
        self.turn = {"both": 0, "prefill": 0, "decode": 0}
        self.agenda: list[tuple[float, int, Callable[[float], None]]] = []
        self.number = 0
        self.noticed: dict[int, float] = {}
        self.homeless: list[tuple[int, str]] = []

    def at(self, time_s: float, what: Callable[[float], None]) -> None:
        self.number += 1
        heappush(self.agenda, (time_s, self.number, what))

    def run(self) -> ServingResult:
        for interval in self.fleet.intervals:
            self.at(interval.start_s, partial(self._changed, interval))
        agenda = self.agenda
        for request, arrival in enumerate(self.book.arrival_s):
            while agenda and agenda[0][0] <= arrival:
                time_s, _, what = heappop(agenda)
                what(time_s)
            self._arrive(request, arrival)
        while agenda:
            time_s, _, what = heappop(agenda)
            what(time_s)
        for number in range(len(self.instances)):
            self.instances[number].advance(inf)
            self._handed(number, inf)
        while agenda:
            time_s, _, what = heappop(agenda)
            what(time_s)
        for instance in self.instances:
            instance.advance(inf)
        return result(self.service, self.arm.name, self.book, self.tally, self.asked.seeds)

    def _role(self) -> str:
        return "prefill" if self.service.prefills else "both"

    def _arrive(self, request: int, now: float) -> None:
        need = self.book.prompt[request] + self.book.output[request]
        number = self._next(self._role())
        if need > self.capacity:
            self.book.rejected[request] = True
            return
        if number is None:
            self.homeless.append((request, self._role()))
            return
        instance = self.instances[number]
        instance.advance(now)
        self._handed(number, now)
        if self.service.queue is not None and len(instance.waiting) >= self.service.queue:
            self.book.rejected[request] = True
            return
        instance.enqueue(request, now)
        self._watch(number)

    def _next(self, role: str) -> int | None:
        """In turn, of those that are there; with one alone it is that one, up or not."""
        candidates = [number for number in range(len(self.instances)) if self.service.role(number) == role]
        up = [number for number in candidates if number not in self.out]
        if not up:
            return candidates[0] if len(candidates) == 1 and self.instances[candidates[0]].blocked_s < inf else None
        self.turn[role] += 1
        return up[self.turn[role] % len(up)]

    def _watch(self, number: int) -> None:
        """Looks at one that only prefills again when its step ends: others wait for what it hands on."""
        instance = self.instances[number]
        if instance.role == "prefill":
            when_s = instance.end if instance.end < inf else instance.blocked_s
            if when_s < inf and self.noticed.get(number) != when_s and (instance.end < inf or instance.load):
                self.noticed[number] = when_s
                self.at(when_s, partial(self._look, number))

    def _look(self, number: int, now: float) -> None:
        self.instances[number].advance(now)
        self._handed(number, now)
        self._watch(number)

    def _handed(self, number: int, now: float) -> None:
        """What is prefilled goes over NICs to who decodes, one cache after the other."""
        instance = self.instances[number]
        if not instance.handed:
            return
        ready, instance.handed = instance.handed, []
        for time_s, request in ready:
            if not self.book.delivered[request]:
                self.book.delivered[request], self.book.last_s[request] = 1, time_s
            size = self.service.llm.kv_bytes * self.book.prompt[request]
            rate = self.fleet.rate(number)
            begin_s = max(time_s, self.links_s[number])
            end_s = begin_s + size / rate if rate else inf
            self.links_s[number] = begin_s if end_s == inf else end_s
            self.tally.moved_bytes += size
            if end_s < inf:
                self.at(end_s, partial(self._deliver, request))

    def _deliver(self, request: int, now: float) -> None:
        number = self._next("decode")
        if number is None:
            self.homeless.append((request, "decode"))
            return
        self.instances[number].advance(now)
        self.instances[number].enqueue(request, now)

    def _changed(self, interval: Interval, now: float) -> None:
        """An interval begins: what hosts have left, then what its faults do."""
        before = self.fleet.state
        self.fleet.state = dict(interval.state)
        for number, instance in enumerate(self.instances):
            hosts = self.fleet.hosts[number]
            if any(self.fleet.state.get(host) != before.get(host) for host in hosts):
                instance.advance(now)
                self._handed(number, now)
                self._repace(number, now)
        for fault in interval.onset:
            self._fault(now, fault, before)

    def _repace(self, number: int, now: float) -> None:
        """Steps from the next one on. What cannot run at all waits until it can; a blow says what becomes of it."""
        instance = self.instances[number]
        instance.pace = self.fleet.pace(number) or instance.pace
        instance.wake(now)

    def _fault(self, now: float, fault: Any, before: Mapping[int, Any]) -> None:
        for number, instance in enumerate(self.instances):
            if number in self.hit:
                continue
            lefts = self.fleet.lefts(number, fault, before)
            found = outages.blow(self.arm, self.service, self.params, lefts, fault, alone=self._alone(number))
            if found.what == "nothing":
                continue
            instance.advance(now)
            self._handed(number, now)
            instance.stall(now, found.stall_s)
            self.links_s[number] = max(self.links_s[number], now) + found.stall_s
            if found.what == "stall":
                self.tally.outages_s.append(found.stall_s)
                self._watch(number)
                continue
            then = {"restart": self._restart, "restore": self._restore, "leave": self._leave}[found.what]
            self.hit.add(number)
            end_s = now + float(fault.duration_s) + found.back_s
            self.at(now + found.stall_s, partial(then, number, now, end_s))

    def _alone(self, number: int) -> bool:
        role = self.service.role(number)
        others = (other for other in range(len(self.instances)) if other != number and other not in self.hit)
        return not any(self.service.role(other) == role for other in others)

    def _restart(self, number: int, since: float, end_s: float, now: float) -> None:
        """Dead: all that was in flight is done again, from the prompt, once it is up again."""
        self._end(number, now)
        up_s = self.fleet.settle(number, now) + outages.restart_s(self.service, self.params)
        lost = self.instances[number].crash(now, up_s)
        self.tally.restarts += 1
        self._back(number, lost, since, up_s)

    def _leave(self, number: int, since: float, end_s: float, now: float) -> None:
        """Left out until the fault is over: others do its requests again, from the prompt."""
        self._end(number, now)
        instance = self.instances[number]
        moved = [*instance.crash(now, max(end_s, now)), *instance.waiting]
        instance.waiting.clear()
        self.out.add(number)
        self._again(moved, now)
        self._back(number, [], since, max(end_s, now))

    def _restore(self, number: int, since: float, end_s: float, now: float) -> None:
        """A worker starts anew and fetches its part of the cache from the peer; all goes on from the last token."""
        instance = self.instances[number]
        instance.advance(now)
        start_s = self.fleet.settle(number, now)
        took_s = outages.restore_s(self.service, self.params, instance.held, self.fleet.rate(number) or inf)
        self.tally.moved_bytes += self.service.llm.kv_bytes * instance.held / max(1, self.service.hosts_each)
        up_s = start_s + took_s
        instance.stall(now, up_s - now)
        self.tally.restarts += 1
        self._back(number, [], since, up_s)

    def _end(self, number: int, now: float) -> None:
        self.instances[number].advance(now)
        self._handed(number, now)

    def _back(self, number: int, lost: Sequence[int], since: float, up_s: float) -> None:
        """Up again at `up_s`, with the NICs that its hosts then have."""
        instance = self.instances[number]
        self.tally.outages_s.append(up_s - since)
        self.out.add(number)
        if lost and instance.role == "decode":
            self._again(lost, instance.start)
        elif lost:
            instance.waiting.extendleft(reversed(lost))
        if up_s < inf:
            self.at(up_s, partial(self._up, number))

    def _up(self, number: int, now: float) -> None:
        instance = self.instances[number]
        if instance.blocked_s > now:  # another blow came meanwhile
            self.at(instance.blocked_s, partial(self._up, number))
            return
        if (again_s := self.fleet.settle(number, now)) > now:
            instance.blocked_s = again_s
            if again_s < inf:
                self.at(again_s, partial(self._up, number))
            return
        self.hit.discard(number)
        self.out.discard(number)
        self.fleet.begin(number)
        instance.advance(now)
        self._repace(number, now)
        self._watch(number)
        waiting, self.homeless = self.homeless, []
        for request, role in waiting:
            self._again([request], now, role)

    def _again(self, requests: Sequence[int], now: float, role: str | None = None) -> None:
        """Requests that lost their instance, to others in turn."""
        role = role or self._role()
        for request in sorted(requests):
            number = self._next(role)
            if number is None:
                self.homeless.append((request, role))
                continue
            instance = self.instances[number]
            instance.advance(now)
            self._handed(number, now)
            instance.requeue([request], now)
            self._watch(number)
