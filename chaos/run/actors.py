"""Carries out the steps of faults: on the switch, on hosts, on the workload's ranks. Nothing else runs commands."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from chaos.deadman.record import began_at, continue_step
from chaos.faults.steps import SWITCH, Alive, Command, Look, Signal, Start, Step, Stop
from harness.errors import CommandError, FaultError, ReachError
from harness.hosts import Host, Process, Result
from harness.hosts.base import spawn_held

COMMAND_S = 5.0
END_S = 2.0


class Signalled(Protocol):
    """A rank's process. `pid` is its number on its host."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def send_signal(self, signum: int) -> None: ...


@dataclass(frozen=True)
class PidOn:
    """A process that somebody else started on a host."""

    host: Host
    pid: int

    def send_signal(self, signum: int) -> None:
        """CommandError when there is no such process, ReachError when its host is lost."""
        self._kill(signal.Signals(signum).name.removeprefix("SIG"))

    def poll(self) -> int | None:
        """None while it runs; its exit code is its parent's to know."""
        return None if self._kill("0", check=False).exit_code == 0 else 0

    def _kill(self, name: str, *, check: bool = True) -> Result:
        return self.host.run(["kill", "-s", name, str(self.pid)], timeout_s=COMMAND_S, check=check)


@dataclass
class _Waiting:
    """A command that was started ahead, what it waits for, and the descriptor by which it gets that."""

    step: Command
    input: str
    process: Process
    ours: int

    def go(self) -> Result | None:
        """Lets it work, and waits for its end. None: it had ended before, whatever that was."""
        try:
            if self.process.poll() is not None:
                return None
            with suppress(BrokenPipeError):  # its exit code says why
                os.write(self.ours, self.input.encode())
            self._hang_up()
            code = self.process.wait(self.step.limit_s)
            return Result(self.step.argv, code, "", self.process.stderr_tail())
        finally:
            self.close()

    def close(self) -> None:
        """Ends it. Without its input it has done nothing."""
        self._hang_up()
        self.process.close()

    def _hang_up(self) -> None:
        ours, self.ours = self.ours, -1
        if ours >= 0:
            os.close(ours)


@dataclass
class Actors:
    """Whoever can carry out a step. `rank` gives the process of a rank; it raises FaultError before it runs."""

    switch: Host | None
    hosts: Mapping[str, Host]
    rank: Callable[[int], Signalled]
    machine_of: Callable[[int], Host | None] = lambda rank: None
    """Whose /proc a rank's process is in; None: this machine's."""
    _helpers: dict[tuple[str, str], Process] = field(default_factory=dict)
    _waiting: dict[Command, _Waiting] = field(default_factory=dict)

    def prepare(self, steps: Sequence[Step]) -> None:
        """Starts what does nothing before it has read its input: a start takes 30 ms on busy cores. `take` gives it.

        What cannot be started is left to `take`, which says why.
        """
        for step in steps:
            form = step.waiting() if isinstance(step, Command) and step not in self._waiting else None
            if isinstance(step, Command) and form is not None:
                with suppress(CommandError, ReachError):
                    self._waiting[step] = _Waiting(step, form[1], *spawn_held(self._host(step.on), list(form[0])))

    def take(self, steps: Sequence[Step]) -> list[Result]:
        """All steps at the same time, answers in their order. Raises CommandError when one cannot be started."""
        if len(steps) < 2 or not all(isinstance(step, Command) for step in steps):
            return [self._one(step) for step in steps]
        with ThreadPoolExecutor(len(steps)) as pool:
            return list(pool.map(self._one, steps))

    def armable(self, steps: Sequence[Step]) -> list[Command]:
        """What of a revert a host can do by itself when we are gone: its commands, and SIGCONT to a rank on a machine.

        Helpers end by themselves, and the lab's switch ends with us. ValueError when a rank cannot be asked.
        """
        found = [step for step in steps if isinstance(step, Command) and step.on != SWITCH]
        for step in steps:
            if isinstance(step, Signal) and step.name == "SIGCONT" and (machine := self.machine_of(step.rank)):
                stat = self._look(Look(step.rank, "stat")).stdout
                found.append(continue_step(machine.name, self.rank(step.rank).pid, began_at(stat)))
        return found

    def close(self) -> None:
        """Ends helpers that were left; one whose host is lost keeps none of the others."""
        with ExitStack() as stack:
            for key in list(self._helpers):
                stack.callback(self._stop, *key)
            for waiting in self._waiting.values():
                stack.callback(waiting.close)
            self._waiting.clear()

    def _one(self, step: Step) -> Result:
        if isinstance(step, Command):
            waiting = self._waiting.pop(step, None)
            said = None if waiting is None else waiting.go()
            if said is not None:
                return said
            host = self._host(step.on)
            return host.run(list(step.argv), input=step.input or None, timeout_s=step.limit_s, check=False)
        if isinstance(step, Signal):
            return self._signal(step)
        if isinstance(step, Look):
            return self._look(step)
        return self._helper(step)

    def _signal(self, step: Signal) -> Result:
        """Who has ended need not be told to go on."""
        process = self.rank(step.rank)
        try:
            process.send_signal(signal.Signals[step.name])
        except CommandError:
            if step.name != "SIGCONT" or process.poll() is None:
                raise
        return _said(step)

    def _host(self, name: str) -> Host:
        if name == SWITCH:
            if self.switch is None:
                raise FaultError(
                    "nobody lets us into this testbed's switch", "r2cc chaos faults says what acts on hosts"
                )
            return self.switch
        if name not in self.hosts:
            raise FaultError(f"this testbed has no host {name}", "use the experiment's own topology (--inventory lab)")
        return self.hosts[name]

    def _look(self, step: Look) -> Result:
        process = self.rank(step.rank)
        file = f"/proc/{process.pid}/{step.file}"
        machine = process.host if isinstance(process, PidOn) else self.machine_of(step.rank)
        if machine is not None:
            return machine.run(["cat", "--", file], timeout_s=COMMAND_S, check=False)
        try:
            return _said(step, Path(file).read_text(errors="replace"))
        except OSError as error:
            return Result((step.text(),), 1, "", str(error))

    def _helper(self, step: Start | Stop | Alive) -> Result:
        key = (step.on, step.name)
        if isinstance(step, Start):
            null = subprocess.DEVNULL
            self._helpers[key] = self._host(step.on).spawn(list(step.argv), stdin=null, stdout=null, stderr=null)
            return _said(step)
        if isinstance(step, Stop):
            self._stop(*key)
            return _said(step)
        process = self._helpers.get(key)
        return _said(step, "running" if process is not None and process.poll() is None else "")

    def _stop(self, host: str, name: str) -> None:
        process = self._helpers.pop((host, name), None)
        if process is None:
            return
        try:
            process.terminate()
            with suppress(CommandError):
                process.wait(END_S)
        finally:
            process.close()


def _said(step: Step, stdout: str = "") -> Result:
    return Result((step.text(),), 0, stdout)
