"""One repeat of one arm: starts the processes, merges what they print, strikes the faults, ends everything."""

from __future__ import annotations

import queue
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from chaos.deadman.safety import anything, too_much
from chaos.deadman.switch import DeadMan
from chaos.experiment.model import Limits
from chaos.experiment.planned import PlannedFault, by_host
from chaos.faults.spec import FaultSpec
from chaos.record.clocks import ours
from chaos.record.journal import Journal, now_ns
from chaos.record.live import Display
from chaos.run.actors import Actors
from chaos.run.injector import Injector
from chaos.run.triggers import Pace, Timers, strike_ns
from chaos.testbed.beds import Bed
from chaos.testbed.launch import Launch
from chaos.testbed.streams import Running, Spoken, parse, start, stop_all
from harness.errors import FaultError, InfraError, LabError, R2ccError
from harness.hosts import Host, Process
from harness.hosts.clock import Offset

PEERS_S = 10.0
"""How long the other ranks have to end by themselves when one has died (docs/reference/contracts.md)."""
NO_PROGRESS_S = 30.0
NO_PROGRESS_ITERATIONS = 10
TICK_S = 0.1
MACHINE_S = 10.0
DRAIN_NS = 3_000_000_000
READY_NS = 500_000_000
"""So long before a fault strikes, its hosts are armed."""
HUNG = "no progress"
"""What the journal says of a run that was ended because nothing moved."""
OURS = "R2CC: "
QUOTED_BYTES = 65536
STANDSTILL_S = 5.0
STANDSTILL = "the machine stood still"
EXIT_WRONG, EXIT_TRANSPORT = 1, 3


@dataclass(frozen=True)
class Plan:
    """Everything of one repeat that is known before it starts."""

    arm: str
    run: int
    ranks: Sequence[Launch]
    samplers: Sequence[Launch]
    faults: Sequence[PlannedFault]
    clocks: Mapping[str, Offset] = field(default_factory=dict)
    """Of hosts whose clock is not ours."""
    limits: Limits = field(default_factory=Limits)


class ArmRun:
    """Runs a plan once. Whatever happens, the journal is complete, what was broken healed, what was started ended."""

    def __init__(self, plan: Plan, bed: Bed, journal: Journal, raw: Path, display: Display) -> None:
        self._plan = plan
        self._bed = bed
        self._journal = journal
        self._raw = raw
        self._display = display
        self._lines: queue.SimpleQueue[Spoken] = queue.SimpleQueue()
        self._timers = Timers()
        self._pace = Pace(len(plan.ranks))
        self._seen: set[tuple[str, int]] = set()
        self._ranks: list[Running] = []
        self._samplers: list[Running] = []
        self._watched_ns = 0
        self._moved_ns = 0
        """When an iteration began or ended last; `_watched_ns` also forgives the time of faults."""
        self._first_dead: Running | None = None
        self._hung = False

    def run(self) -> None:
        """Returns when the workload has ended in a way that can be judged. Raises InfraError when it cannot be."""
        stack = ExitStack()
        stack.callback(self._drain)
        stack.callback(stop_all, self._ranks)
        actors = Actors(self._bed.switch, self._bed.hosts, self._process, self._machine)
        deadman = DeadMan(self._bed.hosts, leases=self._bed.leases) if self._bed.switch is None else None
        limits = partial(too_much, nics=by_host(self._bed.nics), limits=self._plan.limits) if deadman else anything
        self._injector = Injector(actors, self._journal, stack, self._display.note, deadman, too_much=limits)
        with stack:
            for note in deadman.clear() if deadman else ():
                self._display.note(note)
            for planned in self._plan.faults:
                self._injector.arm(planned)
            stack.callback(stop_all, self._samplers)
            self._start(self._plan.samplers, self._samplers)
            self._start(self._plan.ranks, self._ranks)
            self._watched_ns = self._moved_ns = now_ns()
            self._schedule_from_launch()
            self._follow()
        missed = self._injector.miss()
        self._quote()
        self._judge()
        if missed:
            raise InfraError(
                f"the fault {', '.join(missed)} missed: the workload ended before it could strike",
                "let it strike earlier, or run more iterations",
            )

    def _process(self, rank: int) -> Process:
        """A rank's process, for faults on ranks."""
        if rank >= len(self._ranks):
            raise FaultError(f"rank {rank} does not run (yet)", "let the fault strike later")
        return self._ranks[rank].process

    def _machine(self, rank: int) -> Host | None:
        """Where a rank's process is looked at, if its host is a machine of its own."""
        return self._bed.hosts[self._ranks[rank].launch.host] if self._bed.machines else None

    def _schedule_from_launch(self) -> None:
        for planned in self._plan.faults:
            if planned.spec.at.launch_s is not None:
                self._seen.add((planned.spec.id, 0))
                self._strike_at(now_ns() + round(planned.spec.at.launch_s * 1e9), planned, 0)

    def exit_codes(self) -> dict[str, int | None]:
        return {running.launch.name: running.exit_code for running in self._ranks}

    def _start(self, launches: Sequence[Launch], into: list[Running]) -> None:
        """Appends one by one, so that those already running are ended when a later one cannot be started."""
        for launch in launches:
            running = start(launch, self._bed.hosts[launch.host], self._lines, self._stderr(launch))
            into.append(running)
            about: dict[str, Any] = {"name": launch.name, "pid": running.process.pid, "env": launch.env}
            self._journal.write("command", host=launch.host, argv=launch.argv, exit_code=None, **about)

    def _stderr(self, launch: Launch) -> Path:
        return self._raw / f"{self._plan.arm}-{self._plan.run}-{launch.name}.stderr"

    def _follow(self) -> None:
        """The event loop: lines, timers, and the watch over progress, until every rank has ended."""
        while not all(running.eof for running in self._ranks):
            began_ns = now_ns()
            self._take(self._wait_s())
            self._forgive(now_ns() - began_ns)
            for action in self._timers.due(now_ns()):
                action()
            self._watch()
        for running in self._ranks:
            running.finish()
        self._watch()

    def _forgive(self, waited_ns: int) -> None:
        """A machine that was suspended made everybody wait, the controller too: that is nobody's hang."""
        if waited_ns > STANDSTILL_S * 1e9:
            self._journal.write("log", message=f"{STANDSTILL} for {waited_ns / 1e9:.0f} s")
            self._watched_ns = self._moved_ns = now_ns()

    def _wait_s(self) -> float:
        next_ns = self._timers.next_ns()
        return TICK_S if next_ns is None else min(TICK_S, max(0.0, (next_ns - now_ns()) / 1e9))

    def _take(self, wait_s: float) -> None:
        """One line, if one comes in time, and those waiting behind it."""
        try:
            spoken = self._lines.get(timeout=wait_s) if wait_s > 0 else self._lines.get_nowait()
            while True:
                self._hear(spoken)
                spoken = self._lines.get_nowait()
        except queue.Empty:
            return

    def _hear(self, spoken: Spoken) -> None:
        speaker = spoken.speaker
        if spoken.line is None:
            speaker.eof = True
            if speaker in self._samplers and not speaker.stopped:
                self._journal.write("log", host=speaker.launch.host, message=f"{speaker.launch.name} ended early")
            return
        line = parse(spoken.line)
        if line is None:
            text = spoken.line[:500].decode(errors="replace").rstrip()
            self._journal.write("log", host=speaker.launch.host, message=f"{speaker.launch.name} printed: {text}")
            return
        line = ours(line, self._plan.clocks.get(speaker.launch.host))
        self._journal.merge(speaker.launch.host, line)
        if line["event"] == "progress":
            self._progress(line)
        elif line["event"] == "iteration":
            self._iteration(line)
        elif line["event"] == "late":
            self._late(line)

    def _late(self, line: dict[str, Any]) -> None:
        """The bench carries such a fault out itself and says so."""
        for planned in self._plan.faults:
            spec = planned.spec
            if spec.by_workload and (spec.rank, spec.at.iteration) == (line["rank"], line["index"]):
                self._injector.observed(spec.id, line["t_ns"], active=line["phase"] == "begin")
                self._watched_ns = now_ns()

    def _progress(self, line: dict[str, Any]) -> None:
        """The first rank to begin an iteration sets the clock of the faults that wait for it."""
        self._watched_ns = self._moved_ns = now_ns()
        for planned in self._plan.faults:
            spec = planned.spec
            if (spec.id, 0) in self._seen or spec.by_workload:
                continue
            if spec.at.iteration is not None and line["index"] >= spec.at.iteration - 1:
                self._injector.ready(spec.id, 0)
            t_ns = strike_ns(spec, line["index"], line["start_ns"], self._pace)
            if t_ns is not None:
                self._seen.add((spec.id, 0))
                self._strike_at(t_ns, planned, 0)

    def _strike_at(self, t_ns: int, planned: PlannedFault, cycle: int) -> None:
        self._timers.at(t_ns - READY_NS, partial(self._injector.ready, planned.spec.id, cycle))
        self._timers.at(t_ns, partial(self._strike, planned, cycle))

    def _strike(self, planned: PlannedFault, cycle: int) -> None:
        """Injects; this outage's end and the next one's beginning are measured from when the command was issued."""
        spec = planned.spec
        if self._ended(spec) or (spec.may_miss and self._injector.clash_of(planned)):
            return
        if spec.forever and spec.rank is not None:
            self._ranks[spec.rank].stopped = True
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
        asked = self._ranks if spec.rank is None else self._ranks[spec.rank : spec.rank + 1]
        return all(running.eof for running in asked)

    def _heal(self, planned: PlannedFault, cycle: int) -> None:
        issued_ns = self._injector.heal(planned.spec.id)
        self._watched_ns = now_ns()
        if issued_ns is not None:
            self._chain(planned.spec.id, "reverted", issued_ns, cycle)

    def _chain(self, fault_id: str, event: str, issued_ns: int, cycle: int) -> None:
        """Faults that wait for this one; of a flap, for its first outage."""
        for planned in self._plan.faults:
            at = planned.spec.at
            if (at.after, at.event, cycle) == (fault_id, event, 0):
                self._strike_at(issued_ns + round((at.ms or 0) * 1e6), planned, 0)

    def _iteration(self, line: dict[str, Any]) -> None:
        self._watched_ns = self._moved_ns = now_ns()
        whole = self._pace.ended(line["index"], (line["end_ns"] - line["start_ns"]) / 1e6)
        if whole is not None and line["index"] >= 0:
            self._display.iteration(line["index"], whole)

    def _watch(self) -> None:
        """Ends the others when one rank died and they do not, and all of them when nothing moves."""
        for running in self._ranks:
            if running.eof and self._first_dead is None and running.reap() not in (None, 0, EXIT_WRONG):
                self._first_dead = running
                self._display.note(f"{running.launch.name} on {running.launch.host} {_how(running.exit_code)}")
                self._timers.at(now_ns() + round(PEERS_S * 1e9), partial(stop_all, self._ranks))
        patience_s = max(NO_PROGRESS_S, NO_PROGRESS_ITERATIONS * self._pace.median_ms() / 1e3)
        longest_s = max((planned.spec.lasts_s for planned in self._plan.faults), default=0.0)
        quiet = not self._injector.any_active() and now_ns() - self._watched_ns > patience_s * 1e9
        endless = now_ns() - self._moved_ns > (2 * patience_s + longest_s) * 1e9
        if not self._hung and (quiet or endless):
            self._hung = True
            self._journal.write("log", message=f"{HUNG} for {patience_s:.0f} s: the ranks are ended")
            stop_all(self._ranks)

    def _drain(self) -> None:
        """What was printed before the end belongs into the journal, also when the end was an error."""
        deadline = now_ns() + DRAIN_NS
        while now_ns() < deadline and not all(running.eof for running in (*self._ranks, *self._samplers)):
            self._take(TICK_S)

    def _quote(self) -> None:
        """What the net library said for operators, which its callers' error codes do not say."""
        for running in self._ranks:
            path = self._stderr(running.launch)
            text = path.read_text(errors="replace")[-QUOTED_BYTES:] if path.exists() else ""
            for line in dict.fromkeys(line for line in text.splitlines() if OURS in line):
                message = OURS + line.partition(OURS)[2]
                self._journal.write("log", host=running.launch.host, message=message[:1000])

    def _judge(self) -> None:
        """Tells ends that say something about the arm from those that do not."""
        broken = [r for r in self._ranks if not r.stopped and r.exit_code not in (0, EXIT_WRONG, EXIT_TRANSPORT)]
        if broken:
            self._check_machine(broken[0])
            raise self._death(broken[0])
        if self._injector.any_struck():
            return
        if self._hung:
            raise InfraError("the workload hung before any fault struck", f"see {self._raw}")
        if self._first_dead is not None:
            raise self._death(self._first_dead)

    def _check_machine(self, running: Running) -> None:
        """A guest whose kernel died took its rank with it: LabError, for that says nothing about the rank."""
        if not self._bed.machines:
            return
        try:
            self._bed.hosts[running.launch.host].run(["true"], timeout_s=MACHINE_S)
        except R2ccError as error:
            raise LabError(
                f"{running.launch.host} died under {running.launch.name}: {error.message}",
                "its last words are in .cache/vm/logs; run again",
            ) from error

    def _death(self, running: Running) -> InfraError:
        stderr = self._stderr(running.launch)
        last = stderr.read_text(errors="replace").strip().splitlines()[-3:] if stderr.exists() else []
        message = f"{running.launch.name} on {running.launch.host} {_how(running.exit_code)}" + "".join(
            f"\n  | {line}" for line in last
        )
        return InfraError(message, f"see {stderr}")


def _how(exit_code: int | None) -> str:
    code = exit_code or 0
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
