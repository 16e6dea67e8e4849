"""Faults that break no NIC: ranks that stop, die, come late or lose the time of day, and hosts that are too busy."""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from chaos.faults.base import Base
from chaos.faults.steps import Alive, Answer, Command, Look, Signal, Start, Step, Stop

HELPER = Path(__file__).parent / "helpers" / "pressure.py"
CLOCK_LIBRARY = "libr2cc_clock.so"
SPARE_S = 5.0
"""How much longer than its fault a helper may live, should nobody end it."""
STOPPED = ("T", "t")
BUSY_CORES = 2


@dataclass(frozen=True)
class RankFault(Base):
    """One on a rank: it cannot be probed before the ranks run."""

    privilege: ClassVar[str] = "none"

    @property
    def rank(self) -> int:
        assert self.spec.rank is not None
        return self.spec.rank

    def probe(self) -> list[Step]:
        return [Look(self.rank, "stat")]


@dataclass(frozen=True)
class StopRank(RankFault):
    """A process that the kernel does not let run: nothing of it answers, its sockets stay."""

    kind: ClassVar[str] = "stop"
    does: ClassVar[str] = "stops a rank (SIGSTOP) and lets it go on (SIGCONT)"
    peer_sees: ClassVar[str] = "its peers: silence on all paths at once; their data waits in its buffers"

    def inject(self) -> list[Step]:
        return [Signal(self.rank, "SIGSTOP")]

    def revert(self) -> list[Step]:
        return [Signal(self.rank, "SIGCONT")]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        return _state(answers[0]) in STOPPED


@dataclass(frozen=True)
class KillRank(RankFault):
    """A process that dies without a word. Nothing brings it back: all others must end with an error."""

    kind: ClassVar[str] = "kill"
    does: ClassVar[str] = "kills a rank (SIGKILL)"
    peer_sees: ClassVar[str] = "its peers: connections reset"

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

    kind: ClassVar[str] = "late"
    does: ClassVar[str] = "lets a rank enter one iteration late (the bench's --late)"
    peer_sees: ClassVar[str] = "its peers: no receives posted, but every probe answered"

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

    kind: ClassVar[str] = "clock_jump"
    does: ClassVar[str] = f"moves the wall clock of a rank by so many seconds and back ({CLOCK_LIBRARY})"
    peer_sees: ClassVar[str] = "nothing, if nobody trusts the wall clock"
    requires: ClassVar[tuple[str, ...]] = ("tee", "rm", "cat")

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


@dataclass(frozen=True)
class HelperFault(Base, ABC):
    """One that lasts as long as helper processes run. They end by themselves, a little later than asked for."""

    privilege: ClassVar[str] = "none"

    @abstractmethod
    def arguments(self) -> list[tuple[str, tuple[str, ...]]]:
        """(host, what the helper is to do), one a process."""

    def _named(self) -> list[tuple[str, str, tuple[str, ...]]]:
        return [(host, f"{self.spec.id}-{n}", words) for n, (host, words) in enumerate(self.arguments())]

    def inject(self) -> list[Step]:
        seconds = ("--seconds", f"{(self.spec.duration_s or 0.0) + SPARE_S:g}")
        base = ("python3", "-IS", str(HELPER))
        return [Start(host, name, (*base, *words, *seconds)) for host, name, words in self._named()]

    def revert(self) -> list[Step]:
        return [Stop(host, name) for host, name, _ in self._named()]

    def probe(self) -> list[Step]:
        return [Alive(host, name) for host, name, _ in self._named()]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        running = {answer.stdout == "running" for answer in answers}
        return running.pop() if len(running) == 1 else None


@dataclass(frozen=True)
class BusyCores(HelperFault):
    """Other work takes the cores: probes are answered late, on all paths alike."""

    kind: ClassVar[str] = "busy_cores"
    does: ClassVar[str] = "runs so many busy processes beside the ranks (two, if nothing is said)"
    peer_sees: ClassVar[str] = "everybody: everything late, nothing lost"
    requires: ClassVar[tuple[str, ...]] = ("python3",)

    def arguments(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(self.host, ("burn",))] * (self.spec.cores or BUSY_CORES)


@dataclass(frozen=True)
class QueueFull(HelperFault):
    """Other traffic fills the NIC's queue: what is small and urgent waits behind it, or is dropped."""

    kind: ClassVar[str] = "queue_full"
    does: ClassVar[str] = "sends datagrams to nobody out of the NIC, more than it carries (bounded)"
    peer_sees: ClassVar[str] = "late and lost probes, a lower rate"
    requires: ClassVar[tuple[str, ...]] = ("python3",)

    def arguments(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(nic.host, ("fill", "--from", nic.address)) for nic in self.nics]


@dataclass(frozen=True)
class SideFlood(HelperFault):
    """Rubbish to every UDP socket of the host's ranks: their receive queues are full, nothing of it is true."""

    kind: ClassVar[str] = "side_flood"
    does: ClassVar[str] = "sends rubbish to every UDP socket on the host, from the host itself (bounded)"
    peer_sees: ClassVar[str] = "late and lost answers from that host"
    requires: ClassVar[tuple[str, ...]] = ("python3",)

    def arguments(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(self.host, ("flood",))]


def _state(answer: Answer) -> str:
    """The state letter of /proc/PID/stat; the name before it may hold anything."""
    if answer.exit_code != 0:
        raise ValueError("the rank does not run")
    return answer.stdout.rpartition(")")[2].split()[0]
