"""Runs a job to its end: follows its progress, ends all ranks when one has died or nothing moves, and judges."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from harness.errors import R2ccError, UsageError
from harness.hosts.commands import indent
from harness.launch.job import Job
from harness.launch.launchers.launcher import Death
from harness.launch.launchers.registry import launchers
from harness.launch.processes import QUOTED, Processes, Start, Started
from harness.launch.streams import Line
from harness.launch.tally import BROKEN, OK, WRONG, Figures, Tally
from harness.launch.watch import Watch
from harness.schemas.form import Count, ExitCode, Mode, form
from harness.workloads.reading.lines import parsed

PEERS_S = 5.0
"""How long the other ranks have to end by themselves when one has died."""
TICK_S = 0.1
MOVES = ("bench_start", "progress", "iteration", "op", "late", "bench_end")
OWN_CODES = (OK, WRONG, BROKEN)
"""Of ranks that ended by themselves; 3 is also that of one whose peer died."""
ALL_LINES = 4000


@dataclass(frozen=True)
class Result:
    """What came of a job; `reason` says why the exit code is not 0."""

    exit_code: int
    reason: str
    figures: Figures

    def sentence(self) -> str:
        it = self.figures
        text = f"{it.iterations} iterations, {it.wrong_elements} wrong elements"
        text += f", median {it.iteration_ms.median:.1f} ms" if it.iteration_ms else ""
        text += f", {it.busbw_GBps:.3f} GB/s bus bandwidth" if it.busbw_GBps is not None else ""
        return f"{text}; {self.reason}" if self.reason else text


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A job, and how it ended."""

    workload: str
    launcher: Literal["ssh", "mpirun", "srun", "torchrun"]
    mode: Mode
    hosts: Mapping[str, Count]
    """ranks of each"""
    exit_code: ExitCode
    reason: str


@form("job", "r2cc run bench, collectives, ddp, megatron, decode")
@dataclass(frozen=True, kw_only=True)
class JobResult(Figures, Ended):
    """What `r2cc run WORKLOAD --json` prints."""


class JobRun:
    """One job under one launcher. `tell` hears of progress; `heard` of every line that is none of the contract's."""

    def __init__(
        self, job: Job, launcher: str, tell: Callable[[str], None], heard: Callable[[str], None], watch: Watch
    ) -> None:
        self._job, self._launcher, self._tell, self._heard = job, launchers()[launcher], tell, heard
        self._tally = Tally(job.ranks)
        self._watch = watch
        self._deaths: list[Started] = []
        self._end_at_s: float | None = None
        self._stuck = ""

    def run(self, starts: Sequence[Start]) -> Result:
        """Returns when all has ended. InfraError when it could not be started."""
        with Processes() as processes:
            processes.start(starts)
            while not all(each.eof for each in processes.running):
                for spoken in processes.heard(TICK_S):
                    self._hear(spoken.lines or [])
                self._look(processes)
            for each in processes.running:
                with suppress(R2ccError):
                    each.finish()
            self._note_deaths(processes)
            return self._judged()

    def _hear(self, lines: list[Line]) -> None:
        for rank, text in lines:
            line = parsed(text)
            if line is None:
                if text:
                    self._heard(self._named(rank) + text.decode(errors="replace"))
                continue
            took_s = self._tally.add(line)
            if line["event"] in MOVES:
                self._watch.moved(time.monotonic(), took_s)
                if took_s is not None and line["index"] >= 0:
                    self._tell(f"iteration {line['index']}, {took_s * 1e3:.1f} ms, {self._tally.wrong} wrong elements")

    def _named(self, rank: int | None) -> str:
        return "" if rank is None or rank >= self._job.ranks else f"rank {rank} on {self._job.host_of(rank)}: "

    def _look(self, processes: Processes) -> None:
        self._note_deaths(processes)
        now_s = time.monotonic()
        if self._deaths and self._end_at_s is None:
            self._end_at_s = now_s + PEERS_S
        stuck = "" if self._deaths or self._stuck else self._watch.stuck(now_s)
        if stuck:
            self._stuck = stuck
        if stuck or (self._end_at_s is not None and now_s > self._end_at_s):
            self._end_at_s = float("inf")
            with suppress(R2ccError):  # of a host that is lost: what it leaves is told by the processes' end
                processes.stop()

    def _note_deaths(self, processes: Processes) -> None:
        for each in processes.running:
            if each in self._deaths or each.stopped or each.reap() in (None, OK):
                continue
            told = each.eof or each.code not in OWN_CODES  # what it said may still be on its way
            if told and not (each.code == WRONG and self._tally.wrong):
                self._deaths.append(each)

    def _judged(self) -> Result:
        figures = self._tally.figures()
        if self._tally.wrong:
            return Result(WRONG, "wrong results", figures)
        if self._stuck:
            return Result(BROKEN, f"{self._stuck}: all ranks were ended", figures)
        if self._deaths:
            return self._death(figures)
        if not self._tally.completed:
            return Result(BROKEN, f"{len(self._tally.ends)} of {self._job.ranks} ranks came to the end", figures)
        return Result(OK, "", figures)

    def _death(self, figures: Figures) -> Result:
        """Ranks whose peer died end by themselves; the one to name is the one that did not."""
        first = next((each for each in self._deaths if each.code not in OWN_CODES), self._deaths[0])
        code = first.code
        if first.start.rank is not None:
            text = _ending(first.start.shown, code, _telling(first.errors(ALL_LINES), code))
        else:
            said = first.errors(ALL_LINES)
            death = self._launcher.first_death(said)
            blamed = self._tally.blamed()
            if blamed is not None and (death is None or death.code == BROKEN):
                death = Death(blamed, None)
            if death is not None and death.rank < self._job.ranks:
                code = death.code
                shown = f"rank {death.rank} on {self._job.host_of(death.rank)}"
                text = _ending(shown, code, _telling(self._launcher.of_rank(said, death.rank), code))
            else:
                text = _ending(first.start.shown, code, _telling(said, code))
        exit_code = UsageError.exit_code if code == UsageError.exit_code else BROKEN
        return Result(exit_code, text, figures)


NOT_FOUND = 127
"""Of a shell and of `env`, where there is no such program."""
NO_TORCH = "No module named 'torch'"
OTHER_PYTHON = ": --python (or R2CC_PYTHON) names a Python of the hosts that has torch"
NOT_THERE = ": its program is not there; `r2cc deploy` puts ours on hosts, --prefix says in which folder they lie"


def _telling(said: str, code: int | None) -> str:
    """The last lines; of a program that was not used as it wants to be the first one, before it explains itself."""
    lines = said.strip().splitlines()
    return "\n".join(lines[:1] if code == UsageError.exit_code else lines[-QUOTED:])


def _ending(shown: str, code: int | None, errors: str) -> str:
    last = f"; its last lines:\n{indent(errors)}" if errors.strip() else ""
    remedy = NOT_THERE if code == NOT_FOUND else OTHER_PYTHON if NO_TORCH in errors else ""
    return f"{shown} {how_it_ended(code)}{remedy}{last}"


def how_it_ended(code: int | None) -> str:
    """The exit code of a process in words; None: only its peers say that it has died."""
    if code is None:
        return "died, as its peers say"
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    name = f" ({signal.Signals(code - 128).name})" if code > 128 and code - 128 in set(signal.Signals) else ""
    return f"ended with exit code {code}{name}"
