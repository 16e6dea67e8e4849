"""Faults of ranks: they stop, die, come late, or lose the time of day."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated, Any

from pydantic import Field, StrictInt

from chaos.faults.fault import Fault
from chaos.faults.spec import FaultSpec
from chaos.faults.steps import Answer, Command, Look, Signal, Step

CLOCK_LIBRARY = "libr2cc_clock.so"
CLOCK_FILE = "R2CC_TEST_CLOCK_FILE"
STOPPED = ("T", "t")


@dataclass(frozen=True)
class RankFault(Fault):
    """One on a rank: it cannot be probed before the ranks run."""

    class Settings(FaultSpec):
        where = "rank"

    spec: Settings
    privilege = "none"

    @property
    def rank(self) -> int:
        assert self.spec.rank is not None
        return self.spec.rank

    def probe(self) -> list[Step]:
        return [Look(self.rank, "stat")]


@dataclass(frozen=True)
class StopRank(RankFault):
    """A process that the kernel does not let run: nothing of it answers, its sockets stay."""

    kind = "stop"
    noun = "stopped process"
    does = "stops a rank (SIGSTOP) and lets it go on (SIGCONT)"
    peer_sees = "its peers: silence on all paths at once; their data waits in its buffers"
    stops_ranks = True
    drawn = 2

    def inject(self) -> list[Step]:
        return [Signal(self.rank, "SIGSTOP")]

    def revert(self) -> list[Step]:
        return [Signal(self.rank, "SIGCONT")]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        return _state(answers[0]) in STOPPED


@dataclass(frozen=True)
class KillRank(RankFault):
    """A process that dies without a word. Nothing brings it back: all others must end with an error."""

    class Settings(RankFault.Settings):
        timed = False
        forever = True

    spec: Settings
    kind = "kill"
    noun = "killed process"
    does = "kills a rank (SIGKILL)"
    peer_sees = "its peers: connections reset"
    undrawn = "it ends the job: nothing brings the rank back, and all others have to end with an error"

    def inject(self) -> list[Step]:
        return [Signal(self.rank, "SIGKILL")]

    def revert(self) -> list[Step]:
        return []

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        return answers[0].exit_code != 0 or _state(answers[0]) in ("Z", "X")


@dataclass(frozen=True)
class LateRank(RankFault):
    """A rank that enters an iteration late: it posts nothing, while its library goes on answering.

    The bench does it (`--late`), and says when it begins and ends.
    """

    class Settings(RankFault.Settings):
        by_workload = True

        def check(self) -> None:
            if self.at.iteration is None or self.at.fraction:
                raise ValueError("a late rank is late at the beginning of an iteration: at: {iteration: n}")

    spec: Settings
    kind = "late"
    noun = "late rank"
    does = "lets a rank enter one iteration late (the bench's --late)"
    peer_sees = "its peers: no receives posted, but every probe answered"
    drawn = 1

    def inject(self) -> list[Step]:
        return []

    def revert(self) -> list[Step]:
        return []

    def probe(self) -> list[Step]:
        return []

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        return None


@dataclass(frozen=True)
class ClockJump(RankFault):
    """The wall clock of one rank jumps; CLOCK_MONOTONIC does not. By a preloaded library, not the machine's clock."""

    class Settings(RankFault.Settings):
        jump_s: Annotated[StrictInt, Field(ge=-10_000_000, le=10_000_000)]

        def rank_env(self, rank: int) -> dict[str, str]:
            return {CLOCK_FILE: clock_file(rank)} if rank == self.rank else {}

        def libraries(self, rank: int) -> tuple[str, ...]:
            return (CLOCK_LIBRARY,) if rank == self.rank else ()

    spec: Settings
    kind = "clock_jump"
    noun = "clock jump"
    example = {"jump_s": 3600}
    does = f"moves the wall clock of a rank by so many seconds and back ({CLOCK_LIBRARY})"
    peer_sees = "nothing, if nobody trusts the wall clock"
    requires = ("tee", "rm", "cat")
    drawn = 1

    @classmethod
    def draw(cls, rng: Random) -> dict[str, Any]:
        return super().draw(rng) | {"jump_s": rng.choice((-86400, -1, 1, 3600))}

    @property
    def file(self) -> str:
        return clock_file(self.rank)

    def inject(self) -> list[Step]:
        return [Command(self.host, ("tee", self.file), f"{self.spec.jump_s}\n")]

    def revert(self) -> list[Step]:
        return [Command(self.host, ("rm", "-f", "--", self.file))]

    def probe(self) -> list[Step]:
        return [Command(self.host, ("cat", "--", self.file)), Look(self.rank, "maps")]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        if CLOCK_LIBRARY not in answers[1].stdout and answers[1].exit_code == 0:
            raise ValueError(f"rank {self.rank} runs without {CLOCK_LIBRARY}")
        return answers[0].exit_code == 0 and answers[0].stdout.strip() == str(self.spec.jump_s)


def clock_file(rank: int) -> str:
    """Where a rank's offset is read from; one a controller, so that two experiments do not meet."""
    return str(Path(tempfile.gettempdir()) / f"r2cc-clock-{os.getpid()}-{rank}")


def _state(answer: Answer) -> str:
    """The state letter of /proc/PID/stat; the name before it may hold anything."""
    if answer.exit_code != 0:
        raise ValueError("the rank does not run")
    return answer.stdout.rpartition(")")[2].split()[0]
