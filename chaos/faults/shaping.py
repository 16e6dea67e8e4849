"""What a host does to its own NIC's outgoing packets: fewer a second, later, damaged. The old queues come back exactly.

A NIC's root qdisc is replaced by ours (handle 7a7:), or its token bucket changed in place. Only what passes the kernel,
and only what the host sends: nothing on a host can slow what is sent to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from chaos.faults.base import agreed, json_list
from chaos.faults.host import HostFault
from chaos.faults.keep import Kept, parse, restorable, restore
from chaos.faults.qdisc import OURS, Root, bucket_of, has_ours, root_of
from chaos.faults.rate import Bucket, slowed, ticks
from chaos.faults.steps import Answer, Command, Step

QUEUE_S = 0.003
BURST_S = 0.001
LEAST_BYTES = 131_072
Place = tuple[str, str]
"""(host, NIC)."""


@dataclass(frozen=True)
class Queues(HostFault, ABC):
    """Replaces the root qdisc of each NIC. `roots`: what was there."""

    roots: tuple[tuple[Place, Root], ...] = ()
    requires: ClassVar[tuple[str, ...]] = ("ip", "tc")
    kernel_path_only: ClassVar[bool] = True

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
        said = {host: _qdiscs(host, answer) for host, answer in zip(self.by_host, answers, strict=True)}
        return agreed([has_ours(said[nic.host], nic.name) for nic in self.nics])


def _qdiscs(host: str, answer: Answer) -> list[dict[str, Any]]:
    if answer.exit_code != 0:
        raise ValueError(f"{host}: `tc qdisc show` failed")
    return json_list(answer.stdout)


@dataclass(frozen=True)
class HostRate(Queues):
    """A fraction of the NIC's rate: of its token bucket, where it has one, else of what the link runs at."""

    rates: tuple[tuple[Place, Bucket], ...] = ()
    kind: ClassVar[str] = "rate"
    does: ClassVar[str] = (
        "slows what the NIC sends to a fraction of its rate (tc tbf) inside its host; not what it gets"
    )
    peer_sees: ClassVar[str] = "a slow path from that host; near zero, silence for seconds; RDMA: nothing at all"
    features: ClassVar[tuple[str, ...]] = ("tbf",)

    def knowing(self, answers: Sequence[Answer]) -> Self:
        known = {host: parse(answer) for host, answer in zip(self.by_host, answers, strict=True)}
        fault = super().knowing(answers)
        before = dict(fault.roots)
        rates = {place: self._full(known[place[0]], place, before[place]) for place in before}
        return replace(fault, rates=tuple(rates.items()))

    def _root(self, kept: Kept, nic: str) -> Root:
        root = root_of(kept.qdiscs, nic)
        if root.bucket is None:
            return root
        change = f"tc qdisc change dev {nic} root {root.bucket.words()}"
        return replace(root, lines=(change,)) if root.inner else root

    def _full(self, kept: Kept, place: Place, root: Root) -> Bucket:
        if root.bucket is not None:
            return root.bucket
        speed = kept.of_nic[place[1]]["speed"]
        rate_gbit = self.spec.rate_gbit or (int(speed) / 1000 if speed.isdigit() else 0)
        if not rate_gbit:
            raise ValueError(f"{place[0]} {place[1]} does not tell its rate: give the fault rate_gbit")
        return bucket_at(rate_gbit)

    def ours(self, nic: str, root: Root | None) -> str:
        rates = {place[1]: bucket for place, bucket in self.rates}
        fraction = self.spec.fraction or 1.0
        if root is None:
            return f"qdisc replace dev {nic} root handle {OURS} tbf rate {fraction:g}*FULL"
        slow = slowed(rates[nic], fraction).words()
        if root.inner:
            return f"qdisc change dev {nic} root {slow}"
        return f"qdisc replace dev {nic} root handle {OURS} {slow}"

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        """Ours is there, or, where a bucket was changed in place, it has the slow rate."""
        said = {host: _qdiscs(host, answer) for host, answer in zip(self.by_host, answers, strict=True)}
        found = [self._slow(said[place[0]], place, root) for place, root in self.roots]
        return None if None in found else agreed([each is True for each in found])

    def _slow(self, qdiscs: Sequence[Mapping[str, Any]], place: Place, root: Root) -> bool | None:
        if not root.inner or root.bucket is None:
            return has_ours(qdiscs, place[1])
        now = next(each for each in qdiscs if each.get("dev") == place[1] and each.get("root"))
        bucket = bucket_of(now["options"])
        if bucket.same_as(slowed(root.bucket, self.spec.fraction or 1.0)):
            return True
        return False if bucket.same_as(root.bucket) else None


def bucket_at(rate_gbit: float) -> Bucket:
    """Of a link without one."""
    rate = round(rate_gbit * 1e9 / 8)
    burst = max(LEAST_BYTES, round(rate * BURST_S))
    return Bucket(rate, ticks(burst, rate), max(2 * LEAST_BYTES, round(rate * QUEUE_S)))


@dataclass(frozen=True)
class Delay(Queues):
    """Packets leave later than they should."""

    kind: ClassVar[str] = "delay"
    does: ClassVar[str] = "holds every packet that the NIC sends back for delay_ms (tc netem), inside its host"
    peer_sees: ClassVar[str] = "everything from that host late, nothing lost; RDMA: nothing at all"
    features: ClassVar[tuple[str, ...]] = ("netem",)

    def ours(self, nic: str, root: Root | None) -> str:
        return f"qdisc replace dev {nic} root handle {OURS} netem limit 100000 delay {self.spec.delay_ms or 0:g}ms"


@dataclass(frozen=True)
class Corrupt(Queues):
    """One bit of some packets is wrong; checksums find it, and the packet is lost."""

    kind: ClassVar[str] = "corrupt"
    does: ClassVar[str] = "flips a bit in that percentage of what the NIC sends (tc netem), inside its host"
    peer_sees: ClassVar[str] = "bad checksums, which the kernel drops: loss; RDMA: nothing at all"
    features: ClassVar[tuple[str, ...]] = ("netem",)

    def ours(self, nic: str, root: Root | None) -> str:
        return f"qdisc replace dev {nic} root handle {OURS} netem corrupt {self.spec.percent or 0:g}%"
