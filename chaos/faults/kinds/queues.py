"""What a host does to the packets that its NIC sends: later, damaged, or (rate.py) fewer. The old queues come back.

A NIC's root qdisc is replaced by ours (handle 7a7:). Only what passes the kernel, and only what the host sends: nothing
on a host can slow what is sent to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar, Self

from chaos.faults.fault import agreed, json_list
from chaos.faults.parts.host_fault import HostFault
from chaos.faults.parts.keep import Kept, parse, restorable, restore
from chaos.faults.parts.qdisc import OURS, Root, has_ours, root_of
from chaos.faults.spec import FaultSpec, Milliseconds, Percent
from chaos.faults.steps import Answer, Command, Step

Place = tuple[str, str]
"""(host, NIC)."""
DRAWN_MS = (2.0, 20.0, 100.0)
"""What the soak draws from."""


@dataclass(frozen=True)
class Queues(HostFault, ABC):
    """Replaces the root qdisc of each NIC. `roots`: what was there."""

    roots: tuple[tuple[Place, Root], ...] = ()
    requires: ClassVar[tuple[str, ...]] = ("ip", "tc")
    kernel_path_only = True

    @abstractmethod
    def ours(self, nic: str, root: Root | None) -> str:
        """A line for `tc -batch`."""

    def knowing(self, answers: Sequence[Answer]) -> Self:
        known = {host: parse(answer) for host, answer in zip(self.by_host, answers, strict=True)}
        roots = {(nic.host, nic.name): self._root(known[nic.host], nic.name) for nic in self.nics}
        kept = restorable(
            {host: [line for name in names for line in roots[host, name].lines] for host, names in self.by_host.items()}
        )
        return replace(self, roots=tuple(roots.items()), kept=kept)

    def _root(self, kept: Kept, nic: str) -> Root:
        root = root_of(kept.qdiscs, nic)
        if root.inner:
            raise ValueError(f"{nic} has queues below its token bucket, which could not be given back")
        return root

    def inject(self) -> list[Step]:
        known = dict(self.roots)
        return [
            Command(host, ("tc", "-batch", "-"), "".join(f"{self.ours(n, known.get((host, n)))}\n" for n in names))
            for host, names in self.by_host.items()
        ]

    def revert(self) -> list[Step]:
        known = dict(self.kept)
        return [
            restore(host, known.get(host) or [f"tc qdisc RECORDED dev {name}" for name in names])
            for host, names in self.by_host.items()
        ]

    def probe(self) -> list[Step]:
        return [Command(host, ("tc", "-j", "-d", "-raw", "qdisc", "show")) for host in self.by_host]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        said = {host: qdiscs_of(host, answer) for host, answer in zip(self.by_host, answers, strict=True)}
        return agreed([has_ours(said[nic.host], nic.name) for nic in self.nics])


def qdiscs_of(host: str, answer: Answer) -> list[dict[str, Any]]:
    if answer.exit_code != 0:
        raise ValueError(f"{host}: `tc qdisc show` failed")
    return json_list(answer.stdout)


@dataclass(frozen=True)
class Delay(Queues):
    """Packets leave later than they should."""

    class Settings(FaultSpec):
        delay_ms: Milliseconds

    spec: Settings
    kind = "delay"
    noun = "packet delay"
    example = {"delay_ms": 20.0}
    does = "holds every packet that the NIC sends back for delay_ms (tc netem), inside its host"
    peer_sees = "everything from that host late, nothing lost; RDMA: nothing at all"
    features = ("netem",)
    drawn = 2

    @classmethod
    def draw(cls, rng: Random) -> dict[str, Any]:
        return super().draw(rng) | {"delay_ms": rng.choice(DRAWN_MS)}

    def ours(self, nic: str, root: Root | None) -> str:
        return f"qdisc replace dev {nic} root handle {OURS} netem limit 100000 delay {self.spec.delay_ms:g}ms"


@dataclass(frozen=True)
class Corrupt(Queues):
    """One bit of some packets is wrong; checksums find it, and the packet is lost."""

    class Settings(FaultSpec):
        percent: Percent

    spec: Settings
    kind = "corrupt"
    noun = "packet corruption"
    example = {"percent": 1.0}
    does = "flips a bit in that percentage of what the NIC sends (tc netem), inside its host"
    peer_sees = "bad checksums, which the kernel drops: loss; RDMA: nothing at all"
    features = ("netem",)
    drawn = 2

    @classmethod
    def draw(cls, rng: Random) -> dict[str, Any]:
        return super().draw(rng) | {"percent": rng.choice((0.1, 1.0, 5.0, 30.0))}

    def ours(self, nic: str, root: Root | None) -> str:
        return f"qdisc replace dev {nic} root handle {OURS} netem corrupt {self.spec.percent:g}%"
