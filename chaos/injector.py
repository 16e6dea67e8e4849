"""Carries faults out: undo registered before the injection, every step proved by a probe and written to the journal."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from chaos.journal import Journal, now_ns
from chaos.launch import PlannedFault
from harness.errors import CommandError, FaultError
from harness.hosts import Host

COMMAND_S = 5.0
CONFIRM_S = 1.0
RETRY_S = 0.005

Tell = Callable[[str], None]


@dataclass
class State:
    """Where one fault stands."""

    planned: PlannedFault
    struck: bool = False
    injected: bool = False
    cycle: int = 0


class Injector:
    """All faults of one run, on the host that has the switch's side of the NICs.

    Undoing is registered on the ExitStack given, so that it happens after Ctrl-C, SIGTERM and any exception, too.
    """

    def __init__(self, switch: Host, journal: Journal, stack: ExitStack, tell: Tell) -> None:
        self._switch = switch
        self._journal = journal
        self._stack = stack
        self._tell = tell
        self.states: dict[str, State] = {}

    def arm(self, planned: PlannedFault) -> None:
        """Proves that the probe works and that nothing is broken yet. FaultError when something is."""
        state = State(planned)
        if self._probe(state):
            raise FaultError(
                f"{planned.spec.id}: {planned.spec.host} {planned.spec.nic} is broken before the fault",
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
        before_ns, after_ns = self._command(state, state.planned.fault.inject())
        self._write(state, "injected", before_ns=before_ns, after_ns=after_ns)
        self._confirm(state, active=True)
        self._write(state, "active")
        return before_ns

    def heal(self, fault_id: str) -> None:
        """Reverts and proves it; nothing happens when it is not injected."""
        state = self.states[fault_id]
        if not state.injected:
            return
        before_ns, after_ns = self._command(state, state.planned.fault.revert())
        state.injected = False
        self._write(state, "reverted", before_ns=before_ns, after_ns=after_ns)
        self._confirm(state, active=False)
        self._write(state, "verified")

    def miss(self) -> list[str]:
        """Ids of faults that never struck, each written to the journal."""
        missed = [state for state in self.states.values() if not state.struck]
        for state in missed:
            self._write(state, "missed")
        return [state.planned.spec.id for state in missed]

    def any_active(self) -> bool:
        return any(state.injected for state in self.states.values())

    def any_struck(self) -> bool:
        return any(state.struck for state in self.states.values())

    def _refuse_overlap(self, state: State) -> None:
        spec = state.planned.spec
        for other in self.states.values():
            theirs = other.planned.spec
            if other.injected and (theirs.host, theirs.nic) == (spec.host, spec.nic):
                raise FaultError(
                    f"{spec.id} would strike {spec.host} {spec.nic} while {theirs.id} still breaks it",
                    "move the second fault to a later iteration",
                )

    def _command(self, state: State, argv: list[str]) -> tuple[int, int]:
        """(before, after) in ns. The journal line is written after the command: writing must not delay it."""
        before_ns = now_ns()
        try:
            result = self._switch.run(argv, timeout_s=COMMAND_S, check=False)
        except CommandError as error:
            raise FaultError(f"{state.planned.spec.id}: {error.message}", error.hint) from error
        after_ns = now_ns()
        self._journal.write(
            "command",
            host=self._switch.name,
            t_ns=after_ns,
            argv=argv,
            exit_code=result.exit_code,
            started_ns=before_ns,
            stderr=result.stderr[-2000:],
        )
        if result.exit_code != 0:
            detail = result.stderr.strip() or f"exit code {result.exit_code}"
            raise FaultError(
                f"{state.planned.spec.id}: {' '.join(argv)}: {detail}", "r2cc chaos faults lists what is needed"
            )
        return before_ns, after_ns

    def _probe(self, state: State) -> bool:
        fault = state.planned.fault
        try:
            result = self._switch.run(fault.probe(), timeout_s=COMMAND_S, check=False)
            return fault.is_active(result.exit_code, result.stdout)
        except (CommandError, ValueError) as error:
            what = error.message if isinstance(error, CommandError) else str(error)
            raise FaultError(
                f"{state.planned.spec.id}: cannot be probed: {what}",
                f"needed on the switch's side: {', '.join(fault.requires)}",
            ) from error

    def _confirm(self, state: State, *, active: bool) -> None:
        """Probes until the fault is as it should be. FaultError after a second: it proves nothing otherwise."""
        deadline = time.monotonic() + CONFIRM_S
        while self._probe(state) != active:
            if time.monotonic() > deadline:
                word = "active" if active else "gone"
                raise FaultError(f"{state.planned.spec.id}: not {word} {CONFIRM_S:g} s after the command", "run again")
            time.sleep(RETRY_S)
        self._journal.write("probe", host=self._switch.name, id=state.planned.spec.id, holds=True, active=active)

    def _write(self, state: State, phase: str, **fields: Any) -> None:
        spec = state.planned.spec
        cycle = {"cycle": state.cycle} if spec.kind == "flap" else {}
        self._journal.write(
            "fault", host=spec.host, id=spec.id, kind=spec.kind, nic=spec.nic, phase=phase, **cycle, **fields
        )
        self._tell(f"{spec.kind} on {spec.host} {spec.nic}: {phase}")
