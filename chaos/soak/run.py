"""The soak's loop: draws rounds, runs each, judges it, and makes the first failing one small."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, Literal

from chaos.analysis.rundata import Line
from chaos.experiment.file import dump
from chaos.experiment.model import Experiment
from chaos.faults.spec import At, FaultSpec
from chaos.record.journal import Journal, read
from chaos.record.live import Display
from chaos.run import runner
from chaos.soak import draw, judge
from chaos.soak.shrink import OutOfTime, shrink
from chaos.testbed.beds import Bed, launcher_of
from chaos.testbed.launch import DIRECT, Benches
from harness.errors import FaultError, InfraError, LabError
from harness.files.rundir import RunDir

Json = dict[str, Any]
Outcome = Literal["passed", "failed", "infrastructure", "interrupted"]
Say = Callable[[str], None]
REPLAY = "replay.yaml"
EXCUSED_MAX = 5
TRIES = 2
"""How often a list of faults may pass before it is believed to be innocent: failures may need luck."""


@dataclass(frozen=True)
class Request:
    """What to soak and for how long."""

    arm: str
    seed: int
    seconds: float
    round_s: float
    shrink_s: float
    bench: Benches
    build: Json
    open_bed: Callable[[Experiment], AbstractContextManager[Bed]]
    shapes: Sequence[draw.Shape] = draw.SHAPES
    corrupt_carrier: str | None = None
    max_faults: int | None = None
    before: judge.Report | None = None
    """What the soak in this folder came to so far: it goes on with the next round."""
    under_digest: str | None = None
    """Of somebody's own experiment (`resume.digest_of`)."""


@dataclass
class Tally:
    """What happened so far."""

    rounds: int = 0
    excused: int = 0
    """Rounds that the infrastructure spoiled; none of their faults counts."""
    iterations: int = 0
    bytes: int = 0
    fates: list[judge.Fate] = field(default_factory=list)
    missed: int = 0
    failovers: int = 0
    failbacks: int = 0
    began: float = field(default_factory=time.monotonic)
    minutes_before: float = 0.0

    @classmethod
    def after(cls, before: judge.Report | None) -> Tally:
        """That of a soak which goes on."""
        if before is None:
            return cls()
        return cls(
            rounds=before.rounds,
            excused=before.excused_rounds,
            iterations=before.iterations,
            bytes=before.bytes_checked,
            fates=list(before.fates or ()),
            missed=before.missed or 0,
            failovers=before.connections_failed_over,
            failbacks=before.connections_failed_back,
            minutes_before=before.minutes,
        )

    @property
    def minutes(self) -> float:
        return self.minutes_before + (time.monotonic() - self.began) / 60

    def add(self, lines: Sequence[Line], experiment: Experiment) -> None:
        self.rounds += 1
        done = [line for line in lines if line["event"] == "iteration" and line["index"] >= 0]
        self.iterations += len({line["index"] for line in done})
        every = experiment.workload.looks_every
        self.bytes += sum(int(line["bytes"]) for line in done if (line["index"] + 1) % every == 0)
        self.fates += judge.fates(lines)
        self.missed += judge.missed(lines)
        for line in lines:
            if line["event"] == "net_end":
                self.failovers += int(line["failovers"])
                self.failbacks += int(line["failbacks"])


class Soak:
    """One soak: its folder holds soak.json, a trimmed journal of every round, and everything of a failing one."""

    def __init__(self, request: Request, out: RunDir, say: Say, progress: Say) -> None:
        self._request = request
        self._out = out
        self._say = say
        self._progress = progress
        self.tally = Tally.after(request.before)
        self._most_excused = self.tally.excused + EXCUSED_MAX
        self._failed: judge.Failure | None = None
        self._own = request.shapes[0].under is not None

    def run(self) -> judge.Report:
        """Runs until time is up, a round fails, or Ctrl-C; returns what soak.json holds, whatever happened."""
        outcome: Outcome = "passed"
        reason: str | None = None
        try:
            cycles = draw.cycles_of(self._request.shapes[0])
            if cycles is not None:
                self._learn_cycle(cycles)
                self.tally.began = time.monotonic()  # else a busy machine would leave no time for a single round
            number = self.tally.rounds + self.tally.excused
            while not self._done() and self._failed is None:
                self._round_or_excuse(number)
                number += 1
        except KeyboardInterrupt:
            outcome, reason = "interrupted", "everything was rolled back"
        except InfraError as error:
            outcome, reason = "infrastructure", str(error)
        if self._failed is not None:
            outcome = "failed"
        return self._report(outcome, reason)

    def _learn_cycle(self, cycles: int) -> None:
        """How long a cycle of a program takes that is told how many, by those of its own experiment and no fault."""
        request = self._request
        (shape,) = request.shapes
        experiment = draw.experiment_of("alone", shape, (), request.arm, seed=request.seed)
        lines, why = self._execute(experiment, "alone", lambda _: "a run without a fault")
        try:
            taken_s = 0.0 if why else judge.cycle_s(lines, cycles)
        except ValueError as error:
            why = str(error)
        if why:
            raise InfraError(f"without any fault: {why}", f"see {self._out.path / 'alone.jsonl'}")
        (self._out.path / "alone.jsonl").unlink()
        self._request = replace(request, shapes=[replace(shape, cycle_s=taken_s)])

    def _round_or_excuse(self, number: int) -> None:
        """A fault that could not be injected on a busy machine says nothing of the transport; several say: stop."""
        try:
            self._round(number)
        except InfraError as error:
            if self._failed is not None:  # it came up while that was made smaller, and takes nothing back
                raise
            self.tally.excused += 1
            self._say(f"round {number} does not count: {error.message}")
            (self._out.path / f"round-{number:04}.jsonl").unlink(missing_ok=True)
            if self.tally.excused > self._most_excused:
                raise

    def _done(self) -> bool:
        enough = self._request.max_faults
        late = time.monotonic() - self.tally.began >= self._request.seconds
        return late or (enough is not None and len(self.tally.fates) >= enough)

    def _round(self, number: int) -> None:
        request = self._request
        left_s = request.seconds - (time.monotonic() - self.tally.began)
        seconds = max(5.0, min(request.round_s, left_s))
        experiment = draw.round_of(request.seed, number, arm=request.arm, seconds=seconds, shapes=request.shapes)
        experiment = self._sabotaged(experiment)
        name = f"round-{number:04}"
        lines, why = self._execute(experiment, name, lambda faults: f"round {number}: {faults} so far")
        self.tally.add(lines, experiment)
        self._trim(name, keep=why is not None)
        self._progress(self._status())
        if why is not None:
            self._say(f"round {number} failed: {why}")
            self._failed = judge.Failure(number, why, len(experiment.faults))
            self._out.write_text(f"{name}.yaml", dump(experiment))
            self._out.write_text(REPLAY, dump(experiment))
            self._failed = self._shrunk(self._failed, experiment, lines)

    def _sabotaged(self, experiment: Experiment) -> Experiment:
        if self._request.corrupt_carrier is None:
            return experiment
        changes = {"corrupt_carrier": self._request.corrupt_carrier}
        workload = experiment.workload.model_copy(update=changes)
        return experiment.model_copy(update={"workload": workload})

    def _execute(self, experiment: Experiment, name: str, what: Callable[[int], str]) -> tuple[list[Line], str | None]:
        """(journal, why it failed). `what`: in words, after so many faults. Raises InfraError for what says nothing
        about the transport."""
        request = self._request
        path = self._out.path / f"{name}.jsonl"
        path.unlink(missing_ok=True)
        why: str | None = None
        with Journal(path) as journal, request.open_bed(experiment) as bed:
            by = launcher_of(experiment, DIRECT)
            (plan,) = runner.plans(experiment, [request.arm], bed, request.bench, launcher=by)
            try:
                runner.run_one(
                    plan,
                    bed,
                    journal,
                    out=self._out,
                    display=Counter(lambda faults: self._progress(self._status(what(faults)))),
                )
            except (FaultError, LabError):
                if judge.wrong(list(read(path))) is None:
                    raise
            except InfraError as error:
                why = error.message
        lines = list(read(path))
        asked = experiment.workload.measured if experiment.workload.foreign else None
        why = judge.wrong(lines) or why  # a program that found some ends badly, which says less
        why = why or judge.failure(lines, len(plan.ranks), own=self._own, asked=asked)
        left_out = None if self._own or why else judge.left_out_nics(lines, experiment.topology["nics"])
        if left_out:
            raise InfraError(f"{left_out}: faults of its other NICs hit nobody", "run again")
        return lines, why

    def _status(self, now: str = "") -> str:
        """What counts for good never falls; `now`: what is under way, and may yet come to nothing."""
        tally, minutes = self.tally, (time.monotonic() - self.tally.began) / 60
        done = (
            f"{minutes:.1f} of {self._request.seconds / 60:g} min, {len(tally.fates)} faults in {tally.rounds} rounds, "
            f"{tally.failovers} connections moved, {tally.failbacks} returned"
        )
        return f"{done}; {now}" if now else done

    def _trim(self, name: str, *, keep: bool) -> None:
        """Of a good round only what tells of faults and paths is kept; one append-only file for all of them."""
        path = self._out.path / f"{name}.jsonl"
        if keep:
            return
        with gzip.open(self._out.path / "trimmed.jsonl.gz", "at", encoding="utf-8") as file:
            for line in judge.trimmed(read(path)):
                file.write(json.dumps({**line, "run": int(name.rpartition("-")[2])}, separators=(",", ":")) + "\n")
        path.unlink()

    def _shrunk(self, failure: judge.Failure, experiment: Experiment, lines: Sequence[Line]) -> judge.Failure:
        """Finds fewer faults that still fail, and writes them as an experiment; every better one at once."""
        limit = judge.failed_at_ns(lines, own=self._own)
        before = judge.injected_before(lines, limit)
        faults = [fault for fault in experiment.faults if fault.id in before]
        attempts = Attempts(time.monotonic() + self._request.shrink_s)

        def fails(some: list[FaultSpec]) -> bool:
            smaller = reduced(experiment, some)
            for _ in range(TRIES):
                attempts.take()
                _, why = self._execute(smaller, "shrinking", lambda _: f"try {attempts.count} to make it smaller")
                self._say(f"  {len(some)} faults: {why or 'no failure'}")
                if why is not None:
                    self._out.write_text(REPLAY, dump(smaller))
                    return True
            return False

        best = faults if not faults or self._again(fails, faults) else None
        if best:
            best = shrink(best, fails)
            self._out.write_text(REPLAY, dump(reduced(experiment, best)))
        (self._out.path / "shrinking.jsonl").unlink(missing_ok=True)
        count = len(experiment.faults) if best is None else len(best)
        return replace(
            failure,
            replay=str(self._out.path / REPLAY),
            replay_faults=count,
            reproduced=best is not None,
            attempts=attempts.count,
        )

    @staticmethod
    def _again(fails: Callable[[list[FaultSpec]], bool], faults: list[FaultSpec]) -> bool:
        try:
            return fails(faults)
        except OutOfTime:
            return False

    def _report(self, outcome: Outcome, reason: str | None) -> judge.Report:
        request = self._request
        codes: dict[Outcome, int] = {"passed": 0, "failed": 1, "infrastructure": 3, "interrupted": 130}
        tally = self.tally
        report = judge.Report(
            outcome=outcome,
            exit_code=codes[outcome],
            reason=reason,
            seed=request.seed,
            arm=request.arm,
            net=request.shapes[0].workload.get("net", "socket"),
            build_id=request.build.get("build_id"),
            round_s=request.round_s,
            rounds=tally.rounds,
            excused_rounds=tally.excused,
            faults=len(tally.fates),
            iterations=tally.iterations,
            bytes_checked=tally.bytes,
            connections_failed_over=tally.failovers,
            connections_failed_back=tally.failbacks,
            minutes=round(tally.minutes, 2),
            by_kind=judge.totals(tally.fates),
            failure=self._failed,
            fates=tally.fates,
            missed=tally.missed,
            under=own.name if (own := request.shapes[0].under) else None,
            under_digest=request.under_digest,
        )
        self._out.write_json("soak.json", report)
        return report


@dataclass
class Attempts:
    """Counts runs while shrinking; OutOfTime when there is no time for another."""

    deadline: float
    count: int = 0

    def take(self) -> None:
        if time.monotonic() > self.deadline:
            raise OutOfTime
        self.count += 1


class Counter(Display):
    """Counts faults while a round runs; one that strikes again and again is one."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._struck: set[str] = set()

    def note(self, message: str) -> None:
        name, _, rest = message.partition(":")
        if rest.endswith(": injected") and name not in self._struck:
            self._struck.add(name)
            self._tell(len(self._struck))


def _earlier(at: At, by_s: float) -> At:
    """Earlier by so much, or by as many whole iterations: two stay apart. What strikes while ranks start stays."""
    if at.iteration is not None:
        return at.model_copy(update={"iteration": max(1, at.iteration - ceil(by_s / draw.PACE_S))})
    return at if at.time_s is None else at.model_copy(update={"time_s": round(at.time_s - by_s, 4)})


def reduced(experiment: Experiment, faults: Sequence[FaultSpec]) -> Experiment:
    """The same with some of its faults, begun earlier: what happens between two of them stays the same."""
    times = [draw.time_of(fault) for fault in faults if fault.at.launch_s is None]
    shift = max(0.0, min(times, default=0.0) - draw.FIRST_S)
    moved = [fault.model_copy(update={"at": _earlier(fault.at, shift)}) for fault in faults]
    return experiment.model_copy(update={"faults": tuple(moved), "workload": draw.lasting(experiment, moved)})
