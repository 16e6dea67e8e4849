"""Carries faults out: undo registered before the injection, every step proved by a probe and written to the journal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from chaos.deadman.about import about
from chaos.deadman.safety import Target, counted
from chaos.deadman.switch import Armed, DeadMan, stays_armed
from chaos.experiment.planned import PlannedFault
from chaos.faults.fault import Fault
from chaos.faults.steps import Answer, Command, Step, place_of
from chaos.record.journal import Journal, now_ns
from chaos.run.actors import Actors
from harness.errors import CommandError, FaultError, R2ccError, ReachError

CONFIRM_S = 1.0
PROBES = 4
"""At least, however long each takes: on a slow host one that was asked in time may be answered too late."""
RETRY_S = 0.005
REACH_S, AGAIN_S = 30.0, 0.2
STALE_NS = 5_000_000_000
"""A time to live that began earlier is begun again when the fault strikes."""

Tell = Callable[[str], None]
TooMuch = Callable[[Sequence[Target]], str | None]
"""Why so many NICs must not be broken at once; None: they may."""


@dataclass
class State:
    """Where one fault stands. `fault` knows what its `facts` found."""

    planned: PlannedFault
    fault: Fault
    struck: bool = False
    injected: bool = False
    cycle: int = 0
    facts: Sequence[Answer] = ()
    undo: list[Command] = field(default_factory=list)
    armed: Armed | None = None
    """On hosts that outlive us: what they do by themselves, should we be gone."""
    armed_for: int = -1
    """The cycle that it is armed for, since `armed_ns`."""
    armed_ns: int = 0
    registered: bool = False
    answers: Sequence[Answer] = ()
    """To the latest probe."""


class Injector:
    """All faults of one run.

    Undoing is registered on the ExitStack given, so that it happens after Ctrl-C, SIGTERM and any exception, too. What
    no exception stops (kill -9, a lost network, a reboot) is for `deadman`; None: the bed ends with us.
    """

    def __init__(
        self,
        actors: Actors,
        journal: Journal,
        stack: ExitStack,
        tell: Tell,
        deadman: DeadMan | None = None,
        *,
        too_much: TooMuch = lambda broken: None,
    ) -> None:
        self._actors = actors
        self._deadman = deadman
        self._too_much = too_much
        self._journal = journal
        self._stack = stack
        self._tell = tell
        self.states: dict[str, State] = {}
        self._answers: dict[tuple[Step, ...], Sequence[Answer]] = {}
        """To what was asked until the first fault strikes: hundreds of faults ask the same of slow hosts."""
        stack.callback(actors.close)

    def arm(self, planned: PlannedFault) -> None:
        """Proves that the probe works and that nothing is broken yet. FaultError when something is.

        A fault on a rank cannot be probed before there are ranks.
        """
        state = State(planned, planned.fault)
        state.fault = self._informed(state)
        if planned.spec.where != "rank" and self._probe(state) is not False:
            raise FaultError(
                f"{planned.spec.id}: {planned.place} is broken before the fault",
                "take the lab down and up again: r2cc lab down",
            )
        self.states[planned.spec.id] = state
        if self._deadman is None:
            self._write(state, "armed")

    def ready(self, fault_id: str, cycle: int) -> None:
        """Ahead of the strike, which would else come late: arms the fault's hosts, or starts commands that wait."""
        state = self.states[fault_id]
        if state.injected or state.armed_for == cycle:
            return
        if self._deadman is None:
            self._actors.prepare(state.fault.inject())
            return
        state.cycle = cycle
        self._register(state)
        self._arm_hosts(state)

    def strike(self, fault_id: str, cycle: int) -> int:
        """Injects and confirms; returns when the command was issued. FaultError when it does not take effect."""
        state = self.states[fault_id]
        self._refuse_overlap(state)
        self._refuse_too_much(state)
        state.cycle = cycle
        self._register(state)
        if state.armed_for != cycle:
            self._arm_hosts(state)
        elif now_ns() - state.armed_ns > STALE_NS:
            begins, ends = state.planned.spec.cycles[cycle]
            self.extend(fault_id, ends - begins)
        state.struck = state.injected = True
        before_ns, after_ns = self._take(state, state.fault.inject(), inject=True)
        self._write(state, "injected", before_ns=before_ns, after_ns=after_ns)
        self._confirm(state, active=True)
        self._write(state, "active")
        return before_ns

    def heal(self, fault_id: str) -> int | None:
        """Reverts and proves it; returns when it was issued. None: it is not injected, or nothing can undo it."""
        state = self.states[fault_id]
        if not state.injected or state.planned.spec.forever:
            self._disarm(state)
            return None
        try:
            before_ns, after_ns = self._revert(state)
            state.injected = False
            self._write(state, "reverted", before_ns=before_ns, after_ns=after_ns)
            self._confirm(state, active=False)
        except R2ccError:
            self._leave_armed(state)
            raise
        self._write(state, "verified")
        self._disarm(state)
        return before_ns

    def _register(self, state: State) -> None:
        if not state.registered:
            self._stack.callback(self.heal, state.planned.spec.id)
        state.registered = True

    def _revert(self, state: State) -> tuple[int, int]:
        """A host that a fault cuts off from us is asked until it answers again."""
        deadline = time.monotonic() + (REACH_S if state.fault.needs_deadman else 0.0)
        while True:
            try:
                return self._take(state, state.fault.revert())
            except (ReachError, FaultError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(AGAIN_S)

    def extend(self, fault_id: str, lasts_s: float) -> None:
        """The fault stays for so long from now on. FaultError when a host has undone it meanwhile."""
        state = self.states[fault_id]
        if self._deadman is not None and state.armed is not None:
            self._deadman.renew(state.armed, lasts_s)
            self._write(state, "armed", ttl_s=state.armed.ttl_s, timers=state.armed.timers)

    def _arm_hosts(self, state: State) -> None:
        """Before anything is broken: whatever happens to us now, the hosts heal. FaultError: nothing was injected."""
        if self._deadman is None and not state.fault.needs_deadman:
            return
        if self._deadman is None:
            raise FaultError(
                f"{state.planned.spec.id}: never without a dead-man switch on the host",
                "use an inventory FILE of hosts over SSH",
            )
        spec, begins = state.planned.spec, state.planned.spec.cycles[state.cycle]
        try:
            state.undo = self._actors.armable([] if spec.forever else state.fault.revert())
        except ValueError as error:
            raise self._blind(state, error) from error
        state.armed_for, state.armed_ns = state.cycle, now_ns()
        state.armed = self._deadman.prepare(spec.id, state.undo, begins[1] - begins[0])
        if state.armed is not None:
            told = about(spec, getattr(state.fault, "nics", ()), state.planned.host, state.facts)
            self._deadman.arm(state.armed, state.undo, told)
            self._write(state, "armed", ttl_s=state.armed.ttl_s, timers=state.armed.timers)
        else:
            self._write(state, "armed")

    def _disarm(self, state: State) -> None:
        """After the revert was proved, or when nothing was injected."""
        state.armed_for = -1
        armed, deadman = state.armed, self._deadman
        if armed is None or deadman is None:
            return
        notes = deadman.disarm(armed)
        state.armed = None
        for note in notes or [f"{state.planned.spec.id}: disarmed on {', '.join(armed.hosts)}"]:
            self._journal.write("log", message=note)
        for note in notes:
            self._tell(note)

    def _leave_armed(self, state: State) -> None:
        if state.armed is not None:
            message = f"{state.planned.spec.id}: the revert is not proved; {stays_armed(state.armed)}"
            self._journal.write("log", message=message)
            self._tell(message)

    def observed(self, fault_id: str, t_ns: int, *, active: bool) -> None:
        """Notes what the workload itself did to fulfil a fault (a late rank), when it says so."""
        state = self.states[fault_id]
        state.struck, state.injected = True, active
        for phase in ("injected", "active") if active else ("reverted", "verified"):
            more = {"before_ns": t_ns, "after_ns": t_ns} if phase in ("injected", "reverted") else {}
            self._write(state, phase, t_ns=t_ns, **more)

    def miss(self) -> list[str]:
        """Ids of faults that never struck, each written to the journal; those that may miss are not among them."""
        missed = [state for state in self.states.values() if not state.struck]
        for state in missed:
            self._write(state, "missed")
        return [state.planned.spec.id for state in missed if not state.planned.spec.may_miss]

    def any_active(self) -> bool:
        return any(state.injected for state in self.states.values())

    def any_struck(self) -> bool:
        return any(state.struck for state in self.states.values())

    def clash_of(self, planned: PlannedFault) -> str | None:
        """The id of a fault that still breaks what this one would break."""
        injected = [state.planned for state in self.states.values() if state.injected]
        return next((other.spec.id for other in injected if planned.clashes(other)), None)

    def deaf(self, planned: PlannedFault) -> bool:
        """It acts inside ranks, and one on its hosts is stopped. Nobody lets that go on while we wait for an effect."""
        stopped = {state.planned.host for state in self.states.values() if state.injected and state.fault.stops_ranks}
        hosts = {host for host, _ in planned.targets} or {planned.host}
        return planned.fault.inside_ranks and bool(hosts & stopped)

    def _refuse_overlap(self, state: State) -> None:
        mine, other = state.planned, self.clash_of(state.planned)
        if other is not None:
            raise FaultError(
                f"{mine.spec.id} would strike {mine.place} while {other} still breaks it",
                "move the second fault to a later iteration",
            )

    def _refuse_too_much(self, state: State) -> None:
        broken = [state.planned, *(other.planned for other in self.states.values() if other.injected)]
        why = self._too_much([target for planned in broken for target in counted(planned.spec, planned.targets)])
        if why is not None:
            raise FaultError(f"{state.planned.spec.id} must not strike now: {why}", "let faults strike one by one")

    def _informed(self, state: State) -> Fault:
        try:
            state.facts = self._asked(state.fault.facts())
            return state.fault.knowing(state.facts)
        except (CommandError, ValueError, KeyError) as error:
            raise self._blind(state, error) from error

    def _take(self, state: State, steps: Sequence[Step], *, inject: bool = False) -> tuple[int, int]:
        """(before, after) in ns. The journal line is written after the command: writing must not delay it."""
        before_ns = now_ns()
        try:
            results = self._actors.take([self._locked(state, step, inject=inject) for step in steps])
        except CommandError as error:
            raise FaultError(f"{state.planned.spec.id}: {error.message}", error.hint) from error
        after_ns = now_ns()
        for step, result in zip(steps, results, strict=True):
            self._journal.write(
                "command",
                host=place_of(step),
                t_ns=after_ns,
                argv=list(step.argv if isinstance(step, Command) else result.argv),
                exit_code=result.exit_code,
                started_ns=before_ns,
                stderr=result.stderr[-2000:],
            )
            if result.exit_code != 0:
                detail = result.stderr.strip() or f"exit code {result.exit_code}"
                raise FaultError(
                    f"{state.planned.spec.id}: {step.text()}: {detail}", "r2cc chaos faults lists what is needed"
                )
        return before_ns, after_ns

    def _locked(self, state: State, step: Step, *, inject: bool) -> Step:
        """Our own commands never run while a host undoes the same by itself; nothing is broken that it has undone."""
        if self._deadman is None or state.armed is None or not isinstance(step, Command):
            return step
        return self._deadman.locked(state.armed, step, inject=inject)

    def _asked(self, steps: Sequence[Step]) -> Sequence[Answer]:
        if self.any_struck():
            return self._actors.take(steps)
        words = tuple(steps)
        if words not in self._answers:
            self._answers[words] = self._actors.take(steps)
        return self._answers[words]

    def _probe(self, state: State) -> bool | None:
        try:
            state.answers = self._asked(state.fault.probe())
            return state.fault.is_active(state.answers)
        except (CommandError, ValueError) as error:
            raise self._blind(state, error) from error

    def _blind(self, state: State, error: Exception) -> FaultError:
        what = error.message if isinstance(error, CommandError) else str(error)
        needed = ", ".join(state.fault.requires) or "a running rank"
        return FaultError(f"{state.planned.spec.id}: cannot be probed: {what}", f"needed there: {needed}")

    def _confirm(self, state: State, *, active: bool) -> None:
        if not active and self._rank_has_ended(state):
            return
        try:
            self._prove(state, active=active)
        except FaultError:  # the rank may have ended while it was asked
            if active or not self._rank_has_ended(state):
                raise

    def _prove(self, state: State, *, active: bool) -> None:
        """Probes until the fault is as it should be. FaultError after a second, its own time, or some slow probes."""
        within_s = max(CONFIRM_S, state.fault.confirm_s)
        began, probes = time.monotonic(), 1
        while self._probe(state) is not active:
            took_s = time.monotonic() - began
            if took_s > within_s and probes >= PROBES:
                raise self._unproved(state, "active" if active else "gone", took_s)
            time.sleep(RETRY_S)
            probes += 1
        where, seen = state.planned.probed_on, state.fault.seen(state.answers) if active else {}
        self._journal.write("probe", host=where, id=state.planned.spec.id, holds=True, active=active, **seen)

    def _unproved(self, state: State, word: str, took_s: float) -> FaultError:
        why = state.fault.why_not(state.answers) if word == "active" else ""
        spec = state.planned.spec
        message = f"{spec.id} ({spec.kind}): not {word} {took_s:.2g} s after the command"
        return FaultError(f"{message}: {why}" if why else message, "run again")

    def _rank_has_ended(self, state: State) -> bool:
        """A rank that has ended is not stopped any more, and cannot be asked."""
        rank = state.planned.spec.rank
        return rank is not None and self._actors.rank(rank).poll() is not None

    def _write(self, state: State, phase: str, t_ns: int | None = None, **fields: Any) -> None:
        planned, spec = state.planned, state.planned.spec
        cycle = {"cycle": state.cycle} if spec.repeated else {}
        ranked = {} if spec.rank is None else {"rank": spec.rank}
        several = {"nics": [list(target) for target in planned.targets]} if len(planned.targets) > 1 else {}
        about = {"id": spec.id, "kind": spec.kind, "nic": planned.nic, **ranked, **spec.journaled(), **several, **cycle}
        self._journal.write("fault", host=planned.host, t_ns=t_ns, **about, phase=phase, **fields)
        self._tell(f"{spec.id}: {spec.kind} on {planned.place}: {phase}")
