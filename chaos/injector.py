"""Carries faults out: undo registered before the injection, every step proved by a probe and written to the journal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from chaos.actors import Actors
from chaos.fault_spec import RULES
from chaos.faults import Fault
from chaos.journal import Journal, now_ns
from chaos.launch import PlannedFault
from chaos.steps import Step, place_of
from harness.errors import CommandError, FaultError

CONFIRM_S = 1.0
RETRY_S = 0.005

Tell = Callable[[str], None]


@dataclass
class State:
    """Where one fault stands. `fault` knows what its `facts` found."""

    planned: PlannedFault
    fault: Fault
    struck: bool = False
    injected: bool = False
    cycle: int = 0


class Injector:
    """All faults of one run.

    Undoing is registered on the ExitStack given, so that it happens after Ctrl-C, SIGTERM and any exception, too.
    """

    def __init__(self, actors: Actors, journal: Journal, stack: ExitStack, tell: Tell) -> None:
        self._actors = actors
        self._journal = journal
        self._stack = stack
        self._tell = tell
        self.states: dict[str, State] = {}
        stack.callback(actors.close)

    def arm(self, planned: PlannedFault) -> None:
        """Proves that the probe works and that nothing is broken yet. FaultError when something is.

        A fault on a rank cannot be probed before there are ranks.
        """
        state = State(planned, planned.fault)
        state.fault = self._informed(state)
        if RULES[planned.spec.kind].where != "rank" and self._probe(state) is not False:
            raise FaultError(
                f"{planned.spec.id}: {planned.place} is broken before the fault",
                "take the lab down and up again: r2cc lab down",
            )
        self.states[planned.spec.id] = state
        self._write(state, "armed")

    def strike(self, fault_id: str, cycle: int) -> int:
        """Injects and confirms; returns when the command was issued. FaultError when it does not take effect."""
        state = self.states[fault_id]
        self._refuse_overlap(state)
        state.cycle = cycle
        if not state.struck:
            self._stack.callback(self.heal, fault_id)
        state.struck = state.injected = True
        before_ns, after_ns = self._take(state, state.fault.inject())
        self._write(state, "injected", before_ns=before_ns, after_ns=after_ns)
        self._confirm(state, active=True)
        self._write(state, "active")
        return before_ns

    def heal(self, fault_id: str) -> int | None:
        """Reverts and proves it; returns when it was issued. None: it is not injected, or nothing can undo it."""
        state = self.states[fault_id]
        if not state.injected or state.planned.spec.forever:
            return None
        before_ns, after_ns = self._take(state, state.fault.revert())
        state.injected = False
        self._write(state, "reverted", before_ns=before_ns, after_ns=after_ns)
        self._confirm(state, active=False)
        self._write(state, "verified")
        return before_ns

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

    def _refuse_overlap(self, state: State) -> None:
        mine, other = state.planned, self.clash_of(state.planned)
        if other is not None:
            raise FaultError(
                f"{mine.spec.id} would strike {mine.place} while {other} still breaks it",
                "move the second fault to a later iteration",
            )

    def _informed(self, state: State) -> Fault:
        try:
            return state.fault.knowing(self._actors.take(state.fault.facts()))
        except (CommandError, ValueError, KeyError) as error:
            raise self._blind(state, error) from error

    def _take(self, state: State, steps: Sequence[Step]) -> tuple[int, int]:
        """(before, after) in ns. The journal line is written after the command: writing must not delay it."""
        before_ns = now_ns()
        try:
            results = self._actors.take(steps)
        except CommandError as error:
            raise FaultError(f"{state.planned.spec.id}: {error.message}", error.hint) from error
        after_ns = now_ns()
        for step, result in zip(steps, results, strict=True):
            self._journal.write(
                "command",
                host=place_of(step),
                t_ns=after_ns,
                argv=list(result.argv),
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

    def _probe(self, state: State) -> bool | None:
        try:
            return state.fault.is_active(self._actors.take(state.fault.probe()))
        except (CommandError, ValueError) as error:
            raise self._blind(state, error) from error

    def _blind(self, state: State, error: Exception) -> FaultError:
        what = error.message if isinstance(error, CommandError) else str(error)
        needed = ", ".join(state.fault.requires) or "a running rank"
        return FaultError(f"{state.planned.spec.id}: cannot be probed: {what}", f"needed there: {needed}")

    def _confirm(self, state: State, *, active: bool) -> None:
        """Probes until the fault is as it should be. FaultError after a second, or its own time."""
        if not active and self._rank_has_ended(state):
            return
        within_s = max(CONFIRM_S, state.fault.confirm_s)
        deadline = time.monotonic() + within_s
        while self._probe(state) is not active:
            if time.monotonic() > deadline:
                word = "active" if active else "gone"
                raise FaultError(f"{state.planned.spec.id}: not {word} {within_s:g} s after the command", "run again")
            time.sleep(RETRY_S)
        where = state.planned.probed_on
        self._journal.write("probe", host=where, id=state.planned.spec.id, holds=True, active=active)

    def _rank_has_ended(self, state: State) -> bool:
        """A rank that has ended is not stopped any more, and cannot be asked."""
        rank = state.planned.spec.rank
        return rank is not None and self._actors.rank(rank).poll() is not None

    def _write(self, state: State, phase: str, t_ns: int | None = None, **fields: Any) -> None:
        planned, spec = state.planned, state.planned.spec
        cycle = {"cycle": state.cycle} if spec.kind == "flap" else {}
        slow = {} if spec.fraction is None else {"fraction": spec.fraction}
        ranked = {} if spec.rank is None else {"rank": spec.rank}
        several = {"nics": [list(target) for target in planned.targets]} if len(planned.targets) > 1 else {}
        about = {"id": spec.id, "kind": spec.kind, "nic": planned.nic, **ranked, **slow, **several, **cycle}
        self._journal.write("fault", host=planned.host, t_ns=t_ns, **about, phase=phase, **fields)
        self._tell(f"{spec.id}: {spec.kind} on {planned.place}: {phase}")
