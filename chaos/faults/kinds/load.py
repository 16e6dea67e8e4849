"""Faults that keep a host too busy: helper processes beside the ranks, which end by themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, StrictInt

from chaos.faults.fault import Fault
from chaos.faults.spec import FaultSpec
from chaos.faults.steps import Alive, Answer, Start, Step, Stop

HELPER = Path(__file__).parents[1] / "parts" / "pressure.py"
SPARE_S = 5.0
"""How much longer than its fault a helper may live, should nobody end it."""
BUSY_CORES = 2

BUSY_S = (0.3, 0.6, 1.0)
"""What takes the machine itself is never drawn for long."""


@dataclass(frozen=True)
class HelperFault(Fault, ABC):
    """One that lasts as long as helper processes run. They end by themselves, a little later than asked for."""

    privilege = "none"

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

    class Settings(FaultSpec):
        where = "host"
        cores: Annotated[StrictInt, Field(gt=0, le=64)] | None = None

    spec: Settings
    kind = "busy_cores"
    noun = "load on the CPU"
    does = "runs so many busy processes beside the ranks (two, if nothing is said)"
    peer_sees = "everybody: everything late, nothing lost"
    requires = ("python3",)
    drawn = 1
    drawn_s = BUSY_S

    def arguments(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(self.host, ("burn",))] * (self.spec.cores or BUSY_CORES)


@dataclass(frozen=True)
class QueueFull(HelperFault):
    """Other traffic fills the NIC's queue: what is small and urgent waits behind it, or is dropped.

    All of it goes to one neighbour, the subnet's first address. So several hosts with a `rate_mbit` each meet at that
    host's port of the switch: incast. One helper fills all NICs of a host by turns: helpers of their own would start
    one after the other, and a busy machine would fill one NIC more than the next. One core is the limit of all of them
    together.
    """

    class Settings(FaultSpec):
        rate_mbit: Annotated[float, Field(gt=0, le=2000, strict=True, allow_inf_nan=False)] | None = None
        """Of each NIC; more than it carries where nothing is said."""

    spec: Settings
    kind = "queue_full"
    noun = "full queue"
    does = "sends datagrams to a neighbour that drops them, more than the NIC carries (bounded), or rate_mbit"
    peer_sees = "late and lost probes, a lower rate"
    requires = ("python3",)
    drawn = 1
    drawn_s = BUSY_S

    def arguments(self) -> list[tuple[str, tuple[str, ...]]]:
        rate = () if self.spec.rate_mbit is None else ("--rate-mbit", f"{self.spec.rate_mbit:g}")
        addresses: dict[str, list[str]] = {}
        for nic in self.nics:
            addresses.setdefault(nic.host, []).extend(("--from", nic.address))
        return [(host, ("fill", *words, *rate)) for host, words in addresses.items()]


@dataclass(frozen=True)
class SideFlood(HelperFault):
    """Rubbish to every UDP socket of the host's ranks: their receive queues are full, nothing of it is true."""

    class Settings(FaultSpec):
        where = "host"

    spec: Settings
    kind = "side_flood"
    noun = "flood of the side channel"
    does = "sends rubbish to every UDP socket on the host, from the host itself (bounded)"
    peer_sees = "late and lost answers from that host"
    requires = ("python3",)
    drawn = 1
    drawn_s = BUSY_S

    def arguments(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(self.host, ("flood",))]
