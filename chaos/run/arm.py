"""One repeat of one arm: starts the processes, merges what they print, strikes the faults, ends everything."""

from __future__ import annotations

import queue
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from chaos.deadman.safety import anything, too_much
from chaos.deadman.switch import DeadMan
from chaos.experiment.planned import PlannedFault, by_host
from chaos.faults.spec import FaultSpec
from chaos.record.journal import Journal, now_ns
from chaos.record.live import Display
from chaos.run.actors import Actors, PidOn, Signalled
from chaos.run.injector import Injector
from chaos.run.lines import Lines
from chaos.run.plan import Plan
from chaos.run.triggers import Pace, Timers, strike_ns
from chaos.testbed.beds import Bed
from chaos.testbed.launch import Launch
from harness.errors import FaultError, InfraError, LabError, R2ccError
from harness.hosts import Host
from harness.hosts.commands import indent
from harness.launch.deaths import first_death
from harness.launch.plan import as_root, starts
from harness.launch.plan import plan as plan_of
from harness.launch.processes import Backlog, Processes, Spoken, Start, Started
from harness.launch.run import how_it_ended
from harness.launch.streams import Whole
from harness.launch.watch import PATIENCE_S, Watch

PEERS_S = 10.0
"""How long the other ranks have to end by themselves when one has died (docs/reference/contracts.md)."""
TICK_S = 0.1
MACHINE_S = 10.0
DRAIN_NS = 3_000_000_000
READY_NS = 500_000_000
"""So long before a fault strikes, its hosts are armed."""
HUNG = "no progress"
"""What the journal says of a run that was ended because nothing moved."""
OURS = "R2CC: "
QUOTED_LINES = 1000
STANDSTILL_S = 5.0
STANDSTILL = "the machine stood still"
EXIT_WRONG, EXIT_TRANSPORT = 1, 3


class ArmRun:
    """Runs a plan once. Whatever happens, the journal is complete, what was broken healed, what was started ended."""

    def __init__(self, plan: Plan, bed: Bed, journal: Journal, raw: Path, display: Display) -> None:
        self._plan = plan
        self._bed = bed
        self._journal = journal
        self._raw = raw
        self._display = display
        lines = Backlog()
        self._lines, self._started_ranks, self._samplers = lines, Processes(lines), Processes(lines)
        self._read = Lines(plan, journal, self._began)
        self._timers = Timers()
        self._pace = Pace(len(plan.ranks))
        self._seen: set[tuple[str, int]] = set()
        self._watch = Watch(now_s(), PATIENCE_S, PATIENCE_S)
        self._first_dead: Started | None = None
        self._pids: dict[int, PidOn] = {}
        """Of ranks that a launcher started."""
        self._hung = False

    def run(self) -> None:
        """Returns when the workload has ended in a way that can be judged. Raises InfraError when it cannot be."""
        stack = ExitStack()
        stack.enter_context(self._started_ranks)
        stack.enter_context(self._samplers)
        stack.callback(self._drain)
        stack.callback(self._started_ranks.stop)
        actors = Actors(self._bed.switch, self._bed.hosts, self._process, self._machine)
        deadman = DeadMan(self._bed.hosts, leases=self._bed.leases) if self._bed.switch is None else None
        limits = partial(too_much, nics=by_host(self._bed.nics), limits=self._plan.limits) if deadman else anything
        self._injector = Injector(actors, self._journal, stack, self._display.note, deadman, too_much=limits)
        with stack:
            for note in deadman.clear() if deadman else ():
                self._display.note(note)
            for planned in self._plan.faults:
                self._injector.arm(planned)
            stack.callback(self._samplers.stop)
            self._start([self._start_of(each) for each in self._plan.samplers], self._samplers)
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="r2cc-run-"))
            self._start(self._rank_starts(Path(folder)), self._started_ranks)
            self._watch = Watch(now_s(), PATIENCE_S, PATIENCE_S)
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

    def _process(self, rank: int) -> Signalled:
        """A rank's process, for faults on ranks."""
        found = self._pids.get(rank) if self._plan.job else dict(enumerate(self._ranks)).get(rank)
        if found is None:
            raise FaultError(f"rank {rank} does not run (yet)", "let the fault strike later")
        return found.process if isinstance(found, Started) else found

    def _machine(self, rank: int) -> Host | None:
        """Where a rank's process is looked at, if its host is a machine of its own."""
        return self._bed.hosts[self._plan.ranks[rank].host] if self._bed.machines else None

    def _schedule_from_launch(self) -> None:
        for planned in self._plan.faults:
            if planned.spec.at.launch_s is not None:
                self._seen.add((planned.spec.id, 0))
                self._strike_at(now_ns() + round(planned.spec.at.launch_s * 1e9), planned, 0)

    def exit_codes(self) -> dict[str, int | None]:
        return {each.start.shown: each.code for each in self._ranks}

    @property
    def _ranks(self) -> list[Started]:
        return self._started_ranks.running

    def _start(self, starts: Sequence[Start], into: Processes) -> None:
        """The journal has those that run, also when one of them could not be started."""
        self._raw.mkdir(parents=True, exist_ok=True)
        try:
            into.start(starts)
        finally:
            for each in into.running:
                one = each.start
                self._journal_command(one.host.name, one.shown, each.process.pid, one.argv, one.env)

    def _journal_command(self, host: str, name: str, pid: int, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self._journal.write("command", host=host, argv=list(argv), exit_code=None, name=name, pid=pid, env=dict(env))

    def _rank_starts(self, folder: Path) -> list[Start]:
        """`folder`: for files that a launcher reads."""
        job, launcher = self._plan.job, self._plan.launcher
        if job is None:
            return [self._start_of(each, rank) for rank, each in enumerate(self._plan.ranks)]
        planned = plan_of(job, launcher, self._bed, str(folder), as_root=as_root())
        return [replace(each, stderr=self._stderr(each.shown)) for each in starts(planned, self._bed, folder)]

    def _start_of(self, launch: Launch, rank: int | None = None) -> Start:
        host, stderr = self._bed.hosts[launch.host], self._stderr(launch.name)
        return Start(launch.name, host, launch.argv, launch.env, Whole(rank), rank, stderr)

    def _stderr(self, name: str) -> Path:
        return self._raw / f"{self._plan.arm}-{self._plan.run}-{name.replace(' ', '-')}.stderr"

    def _follow(self) -> None:
        """The event loop: lines, timers, and the watch over progress, until every rank has ended."""
        while not all(running.eof for running in self._ranks):
            began_ns = now_ns()
            self._take(self._wait_s())
            self._forgive(now_ns() - began_ns)
            for action in self._timers.due(now_ns()):
                action()
            self._look()
        for running in self._ranks:
            running.finish()
        self._look()

    def _forgive(self, waited_ns: int) -> None:
        """A machine that was suspended made everybody wait, the controller too: that is nobody's hang."""
        if waited_ns > STANDSTILL_S * 1e9:
            self._journal.write("log", message=f"{STANDSTILL} for {waited_ns / 1e9:.0f} s")
            self._watch.moved(now_s())

    def _wait_s(self) -> float:
        next_ns = self._timers.next_ns()
        return TICK_S if next_ns is None else min(TICK_S, max(0.0, (next_ns - now_ns()) / 1e9))

    def _take(self, wait_s: float) -> None:
        """What comes in time, and what waits behind it, until a timer is due."""
        try:
            spoken = self._lines.get(max(0.0, wait_s))
            while True:
                self._hear(spoken)
                if self._wait_s() == 0.0:
                    return
                spoken = self._lines.get()
        except queue.Empty:
            return

    def _hear(self, spoken: Spoken) -> None:
        for line in self._read.heard(spoken):
            if line["event"] == "progress":
                self._progress(line)
            elif line["event"] == "iteration":
                self._iteration(line)
            elif line["event"] == "late":
                self._late(line)
        speaker = spoken.speaker
        if spoken.lines is None:
            speaker.eof = True
            if speaker in self._samplers.running and not speaker.stopped:
                said = f"{speaker.start.shown} ended early"
                self._journal.write("log", host=speaker.start.host.name, message=said)

    def _began(self, rank: int, pid: int) -> None:
        """A rank that a launcher started."""
        launch = self._plan.ranks[rank]
        self._pids[rank] = PidOn(self._bed.hosts[launch.host], pid)
        self._journal_command(launch.host, launch.name, pid, launch.argv, launch.env)

    def _late(self, line: dict[str, Any]) -> None:
        """The bench carries such a fault out itself and says so."""
        for planned in self._plan.faults:
            spec = planned.spec
            if spec.by_workload and (spec.rank, spec.at.iteration) == (line["rank"], line["index"]):
                self._injector.observed(spec.id, line["t_ns"], active=line["phase"] == "begin")
                self._watch.forgive(now_s())

    def _progress(self, line: dict[str, Any]) -> None:
        """The first rank to begin an iteration sets the clock of the faults that wait for it."""
        self._watch.moved(now_s())
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
            for each in self._started_of(spec.rank):
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
        return all(each.eof for each in self._started_of(spec.rank))

    def _started_of(self, rank: int | None) -> Sequence[Started]:
        """What runs a rank, or all of them; a launcher ends as a whole."""
        return self._ranks if rank is None or self._plan.job is not None else self._ranks[rank : rank + 1]

    def _heal(self, planned: PlannedFault, cycle: int) -> None:
        issued_ns = self._injector.heal(planned.spec.id)
        self._watch.forgive(now_s())
        if issued_ns is not None:
            self._chain(planned.spec.id, "reverted", issued_ns, cycle)

    def _chain(self, fault_id: str, event: str, issued_ns: int, cycle: int) -> None:
        """Faults that wait for this one; of a flap, for its first outage."""
        for planned in self._plan.faults:
            at = planned.spec.at
            if (at.after, at.event, cycle) == (fault_id, event, 0):
                self._strike_at(issued_ns + round((at.ms or 0) * 1e6), planned, 0)

    def _iteration(self, line: dict[str, Any]) -> None:
        whole = self._pace.ended(line["index"], (line["end_ns"] - line["start_ns"]) / 1e6)
        self._watch.moved(now_s(), None if whole is None else whole / 1e3)
        if whole is not None and line["index"] >= 0:
            self._display.iteration(line["index"], whole)

    def _look(self) -> None:
        """Ends the others when one rank died and they do not, and all of them when nothing moves."""
        for running in self._ranks:
            if running.eof and self._first_dead is None and running.reap() not in (None, 0, EXIT_WRONG):
                self._first_dead = running
                self._display.note(f"{_named(running)} {how_it_ended(running.code)}")
                self._timers.at(now_ns() + round(PEERS_S * 1e9), self._started_ranks.stop)
        if not self._hung and self._hangs(now_s()):
            self._hung = True
            self._journal.write("log", message=f"{HUNG} for {self._watch.allowed_s():.0f} s: the ranks are ended")
            self._started_ranks.stop()

    def _hangs(self, at_s: float) -> bool:
        """A fault may hold everything up while it is active, but not for ever."""
        longest_s = max((planned.spec.lasts_s for planned in self._plan.faults), default=0.0)
        endless = self._watch.still_s(at_s) > 2 * self._watch.allowed_s() + longest_s
        return endless or bool(not self._injector.any_active() and self._watch.stuck(at_s))

    def _drain(self) -> None:
        """What was printed before the end belongs into the journal, also when the end was an error."""
        deadline = now_ns() + DRAIN_NS
        while now_ns() < deadline and not all(each.eof for each in (*self._ranks, *self._samplers.running)):
            self._take(TICK_S)

    def _quote(self) -> None:
        """What the net library said for operators, which its callers' error codes do not say."""
        for running in self._ranks:
            text = running.errors(QUOTED_LINES)
            for line in dict.fromkeys(line for line in text.splitlines() if OURS in line):
                message = OURS + line.partition(OURS)[2]
                self._journal.write("log", host=running.start.host.name, message=message[:1000])

    def _judge(self) -> None:
        """Tells ends that say something about the arm from those that do not."""
        broken = [r for r in self._ranks if not r.stopped and self._code(r) not in (0, EXIT_WRONG, EXIT_TRANSPORT)]
        if broken:
            self._check_machine(broken[0])
            raise self._death(broken[0])
        if self._injector.any_struck():
            return
        if self._hung:
            raise InfraError("the workload hung before any fault struck", f"see {self._raw}")
        if self._first_dead is not None:
            raise self._death(self._first_dead)

    def _code(self, each: Started) -> int | None:
        """Of the first rank that ended badly, where a launcher says so: its own means less."""
        death = first_death(self._plan.launcher, each.errors(QUOTED_LINES)) if each.code else None
        return each.code if death is None or death.code is None else death.code

    def _check_machine(self, running: Started) -> None:
        """A guest whose kernel died took its rank with it: LabError, for that says nothing about the rank."""
        if not self._bed.machines:
            return
        try:
            running.start.host.run(["true"], timeout_s=MACHINE_S)
        except R2ccError as error:
            raise LabError(
                f"{running.start.host.name} died under {running.start.shown}: {error.message}",
                "its last words are in .cache/vm/logs; run again",
            ) from error

    def _death(self, running: Started) -> InfraError:
        last = "".join(f"\n{line}" for line in indent(running.errors(3)).splitlines())
        return InfraError(f"{_named(running)} {how_it_ended(running.code)}{last}", f"see {running.start.stderr}")


def _named(each: Started) -> str:
    return f"{each.start.shown} on {each.start.host.name}"


def now_s() -> float:
    return now_ns() / 1e9
