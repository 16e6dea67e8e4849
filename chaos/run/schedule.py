"""When the faults of a run strike and heal: set by what ranks say, and by other faults."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from chaos.experiment.planned import PlannedFault
from chaos.faults.spec import FaultSpec
from chaos.record.journal import now_ns
from chaos.run.injector import Injector
from chaos.run.plan import Plan
from chaos.run.ranks import Ranks
from chaos.run.triggers import Counts, Pace, Timers, foreseen, strike_ns

LATE_NS = 2_000_000_000
"""One that may miss is left out if it is so late, as the commands of those before it took long: else a slow bed breaks
more and more at once."""
READY_NS = 500_000_000
"""So long before a fault strikes, its hosts are armed."""


class Schedule:
    """Of one run. `forgive` is called when that nothing moved had a reason that we know."""

    def __init__(
        self, plan: Plan, ranks: Ranks, injector: Injector, timers: Timers, forgive: Callable[[], None]
    ) -> None:
        self._faults = plan.faults
        self._ranks, self._injector, self._timers, self._forgive = ranks, injector, timers, forgive
        self._seen: set[str] = set()
        """Faults whose time is set."""
        self._counts = Counts()

    def launched(self) -> None:
        """The ranks were started."""
        for planned in self._faults:
            if planned.spec.at.launch_s is not None:
                self._set(planned, now_ns() + round(planned.spec.at.launch_s * 1e9))

    def waits(self) -> bool:
        """Whether a line of a rank may still set the clock of a fault."""
        return any(each.spec.id not in self._seen and each.spec.at.after is None for each in self._faults)

    def progress(self, line: dict[str, Any], pace: Pace) -> None:
        """The first rank to begin an iteration sets the clock of the faults that wait for it."""
        for planned in self._faults:
            spec = planned.spec
            if spec.id in self._seen or spec.by_workload:
                continue
            if spec.at.iteration is not None and line["index"] >= spec.at.iteration - 1:
                self._injector.ready(spec.id, 0)
            t_ns = strike_ns(spec, line["index"], line["start_ns"], foreseen(line, pace))
            if t_ns is not None:
                self._set(planned, t_ns)

    def traffic(self, line: dict[str, Any]) -> None:
        """What NCCL has done sets the clock of the faults that wait for that."""
        self._counts.add(line)
        for planned in self._faults:
            if planned.spec.id not in self._seen and planned.spec.at.counted:
                self._injector.ready(planned.spec.id, 0)
                if self._counts.reached(planned.spec):
                    self._set(planned, now_ns())

    def late(self, line: dict[str, Any]) -> None:
        """The bench carries such a fault out itself and says so."""
        for planned in self._faults:
            spec = planned.spec
            if spec.by_workload and (spec.rank, spec.at.iteration) == (line["rank"], line["index"]):
                self._injector.observed(spec.id, line["t_ns"], active=line["phase"] == "begin")
                self._forgive()

    def _set(self, planned: PlannedFault, t_ns: int) -> None:
        self._seen.add(planned.spec.id)
        self._strike_at(t_ns, planned, 0)

    def _strike_at(self, t_ns: int, planned: PlannedFault, cycle: int) -> None:
        self._timers.at(t_ns - READY_NS, partial(self._injector.ready, planned.spec.id, cycle))
        self._timers.at(t_ns, partial(self._strike, planned, cycle, t_ns))

    def _strike(self, planned: PlannedFault, cycle: int, due_ns: int) -> None:
        """Injects; this outage's end and the next one's beginning are measured from when the command was issued."""
        spec = planned.spec
        late = now_ns() - due_ns > LATE_NS
        in_vain = late or self._injector.clash_of(planned) or self._injector.deaf(planned)
        if self._ended(spec) or (spec.may_miss and in_vain):
            return
        if spec.forever and spec.rank is not None:
            for each in self._ranks.of(spec.rank):
                each.stopped = True
        issued_ns = self._injector.strike(spec.id, cycle)
        self._chain(spec.id, "injected", issued_ns, cycle)
        if spec.forever:
            return
        begins, ends = spec.cycles[cycle]
        self._timers.at(issued_ns + round((ends - begins) * 1e9), partial(self._heal, planned, cycle))
        if cycle + 1 < len(spec.cycles):
            pause = spec.cycles[cycle + 1][0] - begins
            self._strike_at(issued_ns + round(pause * 1e9), planned, cycle + 1)

    def _ended(self, spec: FaultSpec) -> bool:
        """True when the fault comes too late: its rank, or the whole workload, has ended."""
        return all(each.eof for each in self._ranks.of(spec.rank))

    def _heal(self, planned: PlannedFault, cycle: int) -> None:
        issued_ns = self._injector.heal(planned.spec.id)
        self._forgive()
        if issued_ns is not None:
            self._chain(planned.spec.id, "reverted", issued_ns, cycle)

    def _chain(self, fault_id: str, event: str, issued_ns: int, cycle: int) -> None:
        """Faults that wait for this one; of a flap, for its first outage."""
        for planned in self._faults:
            at = planned.spec.at
            if (at.after, at.event, cycle) == (fault_id, event, 0):
                self._strike_at(issued_ns + round((at.ms or 0) * 1e6), planned, 0)
