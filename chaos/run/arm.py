"""One repeat of one arm: starts the processes, merges what they print, strikes the faults, ends everything."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from chaos.deadman.safety import anything, too_much
from chaos.deadman.switch import DeadMan
from chaos.faults.fault import by_host
from chaos.record.journal import Journal, now_ns
from chaos.record.live import Display
from chaos.run.actors import Actors
from chaos.run.ending import died, judge, judge_foreign, named, quote
from chaos.run.foreign import read_digests, read_left
from chaos.run.injector import Injector
from chaos.run.lines import Lines
from chaos.run.plan import Plan
from chaos.run.ranks import Ranks
from chaos.run.schedule import Schedule
from chaos.run.triggers import Pace, Timers
from chaos.testbed.beds import Bed
from harness.errors import InfraError
from harness.launch.processes import Spoken, Started
from harness.launch.run import how_it_ended
from harness.launch.watch import PATIENCE_S, Watch

PEERS_S = 10.0
"""How long the other ranks have to end by themselves when one has died (docs/reference/contracts.md)."""
TICK_S = 0.1
DRAIN_NS = 3_000_000_000
HUNG = "no progress"
"""What the journal says of a run that was ended because nothing moved."""
STANDSTILL_S = 5.0
STANDSTILL = "the machine stood still"


class ArmRun:
    """Runs a plan once. Whatever happens, the journal is complete, what was broken healed, what was started ended."""

    def __init__(self, plan: Plan, bed: Bed, journal: Journal, raw: Path, display: Display) -> None:
        self._plan, self._bed, self._journal, self._raw, self._display = plan, bed, journal, raw, display
        self._ranks = Ranks(plan, bed, journal, raw)
        self._lines = Lines(plan, journal, self._ranks.began)
        self._timers, self._pace = Timers(), Pace(len(plan.ranks))
        self._starting_s = plan.foreign.start_s if plan.foreign else PATIENCE_S * bed.patience
        self._watch = Watch(now_s(), self._starting_s, PATIENCE_S)
        self._speaking: set[int] = set()
        self._first_dead: Started | None = None
        self._hung = False
        self.exit_codes = self._ranks.exit_codes

    def run(self) -> None:
        """Returns when the workload has ended in a way that can be judged. Raises InfraError when it cannot be."""
        ranks, stack = self._ranks, ExitStack()
        stack.callback(self._lines.keep, self._raw)
        stack.enter_context(ranks.ranks)
        stack.enter_context(ranks.samplers)
        stack.callback(self._drain)
        stack.callback(ranks.stop)
        breakers = self._bed.breakers or self._bed.hosts
        actors = Actors(self._bed.switch, breakers, ranks.process, ranks.machine)
        deadman = DeadMan(breakers, leases=self._bed.leases) if self._bed.switch is None else None
        limits = partial(too_much, nics=by_host(self._bed.nics), limits=self._plan.limits) if deadman else anything
        self._injector = Injector(actors, self._journal, stack, self._display.note, deadman, too_much=limits)
        self._schedule = Schedule(self._plan, ranks, self._injector, self._timers, self._forgive)
        with stack:
            for note in deadman.clear() if deadman else ():
                self._display.note(note)
            for planned in self._plan.faults:
                self._injector.arm(planned)
            stack.callback(ranks.samplers.stop)
            ranks.start_samplers()
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="r2cc-run-"))
            self._lines.began_ns = now_ns()
            ranks.start(Path(folder))
            self._watch = Watch(now_s(), self._starting_s, PATIENCE_S)
            self._schedule.launched()
            self._follow()
            self._lines.left(partial(read_left, self._plan, self._bed.hosts))
            well = [rank for rank in range(len(self._plan.ranks)) if all(each.code == 0 for each in ranks.of(rank))]
            read_digests(self._plan, self._bed.hosts, self._journal, of=well)
        self._close(self._injector.miss())

    def _close(self, missed: list[str]) -> None:
        ranks, struck = self._ranks.running, self._injector.any_struck()
        quote(ranks, self._journal)
        if self._plan.foreign is not None:
            judge_foreign(
                self._ranks, self._lines, self._starting_s, struck=struck, hung=self._hung, spoke=bool(self._speaking)
            )
        judge(ranks, self._plan, self._bed, self._raw, struck=struck, hung=self._hung, first_dead=self._first_dead)
        if missed:
            raise InfraError(
                f"the fault {', '.join(missed)} missed: the workload ended before it could strike",
                "let it strike earlier, or run more iterations",
            )

    def _follow(self) -> None:
        """The event loop: lines, timers, and the watch over progress, until every rank has ended."""
        looked_ns = 0
        while not all(running.eof for running in self._ranks.running):
            began_ns = now_ns()
            self._take(self._wait_s())
            self._stood_still(now_ns() - began_ns)
            for action in self._timers.due(now_ns()):
                action()
            if now_ns() - looked_ns >= TICK_S * 1e9:
                looked_ns = now_ns()
                self._look()
        for running in self._ranks.running:
            running.finish()
        self._look()

    def _forgive(self) -> None:
        self._watch.forgive(now_s())

    def _stood_still(self, waited_ns: int) -> None:
        """A machine that was suspended made everybody wait, the controller too: that is nobody's hang."""
        if waited_ns > STANDSTILL_S * 1e9:
            self._journal.write("log", message=f"{STANDSTILL} for {waited_ns / 1e9:.0f} s")
            self._watch.moved(now_s())

    def _wait_s(self) -> float:
        next_ns = self._timers.next_ns()
        return TICK_S if next_ns is None else min(TICK_S, max(0.0, (next_ns - now_ns()) / 1e9))

    def _take(self, wait_s: float) -> None:
        """What comes in time, and what waits behind it, until a timer is due. While no fault waits for a line, lines
        are taken a block at a time; each has the time when it was read."""
        patient = wait_s >= TICK_S and not self._schedule.waits()
        for spoken in self._ranks.ranks.heard(wait_s, patient=patient):
            self._hear(spoken)
            if self._wait_s() == 0.0:
                return

    def _hear(self, spoken: Spoken) -> None:
        for line in self._lines.heard(spoken):
            if line["event"] == "progress":
                self._watch.moved(now_s())
                self._schedule.progress(line, self._pace)
            elif line["event"] == "iteration":
                self._iteration(line)
            elif line["event"] == "late":
                self._schedule.late(line)
            elif line["event"] == "request_failed":
                self._watch.moved(now_s())
            elif line["event"] == "traffic":
                self._watch.moved(now_s())
                self._schedule.traffic(line)
            elif line["event"] == "bench_start" and self._plan.foreign:
                self._speaking.add(line["rank"])
                self._pace.ranks = len(self._speaking)
        speaker = spoken.speaker
        if spoken.lines is None and speaker in self._ranks.samplers.running and not speaker.stopped:
            self._journal.write("log", host=speaker.start.host.name, message=f"{speaker.start.shown} ended early")

    def _iteration(self, line: dict[str, Any]) -> None:
        whole = self._pace.ended(line["index"], (line["end_ns"] - line["start_ns"]) / 1e6)
        self._watch.moved(now_s(), None if whole is None else whole / 1e3)
        if whole is not None and line["index"] >= 0:
            self._display.iteration(line["index"], whole)

    def _look(self) -> None:
        """Ends the others when one rank died and they do not, and all of them when nothing moves."""
        for running in self._ranks.running:
            if self._first_dead is None and died(running, self._plan):
                self._first_dead = running
                self._display.note(f"{named(running)} {how_it_ended(running.code)}")
                self._timers.at(now_ns() + round(PEERS_S * 1e9), self._ranks.stop)
        if not self._hung and self._hangs(now_s()):
            self._hung = True
            self._journal.write("log", message=f"{HUNG} for {self._watch.allowed_s():.0f} s: the ranks are ended")
            self._ranks.stop()
        self._ranks.looked_after(now_s())

    def _hangs(self, at_s: float) -> bool:
        """A fault may hold everything up while it is active, but not for ever."""
        if self._watch.moves(at_s):
            return False
        longest_s = max((planned.spec.lasts_s for planned in self._plan.faults), default=0.0)
        endless = self._watch.still_s(at_s) > 2 * self._watch.allowed_s() + longest_s
        return endless or bool(not self._injector.any_active() and self._watch.stuck(at_s))

    def _drain(self) -> None:
        """What was printed before the end belongs into the journal, also when the end was an error."""
        deadline = now_ns() + DRAIN_NS
        while now_ns() < deadline and not all(each.eof for each in self._ranks.every):
            self._take(TICK_S)


def now_s() -> float:
    return now_ns() / 1e9
