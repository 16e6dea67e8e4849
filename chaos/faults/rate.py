"""A NIC that is slower than it should be: both ends' token buckets changed, and put back exactly as they were."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from chaos.faults.base import Base, json_list
from chaos.faults.steps import SWITCH, Answer, Command, Step

End = tuple[str, str]
"""Where a token bucket is: host (or the switch) and device."""
TICK_S = 64e-9
"""The kernel counts a bucket's depth in ticks of 64 ns at its rate."""
LARGEST_PACKET_BYTES = 66_000
"""What the kernel hands over at once (GSO: 64 KiB and headers). A bucket that holds less than a packet that waits
already lets nothing through, ever: packets are cut to the bucket's size only when they come."""


@dataclass(frozen=True)
class Bucket:
    """A token bucket as `tc -d -raw` reports it; `depth_ticks` is exact where bytes are rounded."""

    rate_Bps: int
    depth_ticks: int
    limit_bytes: int

    @property
    def burst_bytes(self) -> int:
        """The bytes from which tc computes exactly these ticks, or the nearest there are."""
        near = self.depth_ticks * TICK_S * self.rate_Bps
        candidates = (math.floor(near), math.ceil(near), math.floor(near) + 1)
        return min(candidates, key=lambda size: abs(ticks(size, self.rate_Bps) - self.depth_ticks))

    def words(self) -> str:
        return f"tbf rate {self.rate_Bps}bps burst {self.burst_bytes}b limit {self.limit_bytes}b"

    def same_as(self, other: Bucket) -> bool:
        """Equal, but for what one byte of depth is worth: no whole number of bytes may give the same ticks."""
        byte = ticks(1, self.rate_Bps) + 1
        equal = (self.rate_Bps, self.limit_bytes) == (other.rate_Bps, other.limit_bytes)
        return equal and abs(self.depth_ticks - other.depth_ticks) <= byte


def ticks(size_bytes: int, rate_Bps: int) -> int:
    """As iproute2 computes them (tc_core.c): rounded down."""
    return int(size_bytes / rate_Bps / TICK_S)


def slowed(bucket: Bucket, fraction: float) -> Bucket:
    """The same queue at a part of the rate, and a bucket that holds as long a burst, but at least what may wait."""
    rate = max(1, round(bucket.rate_Bps * fraction))
    burst = max(min(LARGEST_PACKET_BYTES, bucket.burst_bytes), round(bucket.burst_bytes * fraction))
    return Bucket(rate, ticks(burst, rate), bucket.limit_bytes)


@dataclass(frozen=True)
class Rate(Base):
    """Slows a NIC down, both ways: its own egress and that of its switch port."""

    before: tuple[tuple[End, Bucket], ...] = ()
    kind: ClassVar[str] = "rate"
    does: ClassVar[str] = "slows the NIC to a fraction of its rate, both ways (tc tbf), and puts it back exactly"
    peer_sees: ClassVar[str] = "everybody: a slow path; near zero, silence for seconds"
    requires: ClassVar[tuple[str, ...]] = ("tc",)
    features: ClassVar[tuple[str, ...]] = ("tbf",)
    kernel_path_only: ClassVar[bool] = True

    @property
    def ends(self) -> list[End]:
        return [end for nic in self.nics for end in ((SWITCH, nic.switch_port), (nic.host, nic.name))]

    def facts(self) -> list[Step]:
        return self.probe()

    def knowing(self, answers: Sequence[Answer]) -> Self:
        return replace(self, before=tuple((end, _bucket(answers, self, end)) for end in self.ends))

    def inject(self) -> list[Step]:
        fraction = self.spec.fraction or 1.0
        known = {end: slowed(bucket, fraction).words() for end, bucket in self.before}
        return self._change(known, f"tbf rate {fraction:g}*RECORDED")

    def revert(self) -> list[Step]:
        return self._change({end: bucket.words() for end, bucket in self.before}, "tbf rate RECORDED")

    def _change(self, words: dict[End, str], unknown: str) -> list[Step]:
        """One process a host: all of its NICs change together. `unknown` is for a dry run, which asks nobody."""
        lines: dict[str, list[str]] = {}
        for host, device in self.ends:
            words_here = words.get((host, device), unknown)
            lines.setdefault(host, []).append(f"qdisc change dev {device} root {words_here}\n")
        return [Command(host, ("tc", "-batch", "-"), "".join(found)) for host, found in lines.items()]

    def probe(self) -> list[Step]:
        hosts = dict.fromkeys(host for host, _ in self.ends)
        return [Command(host, ("tc", "-j", "-d", "-raw", "qdisc", "show")) for host in hosts]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        """At the slow rate everywhere, or everywhere as it was."""
        known = dict(self.before)
        now = {end: _bucket(answers, self, end) for end in self.ends}
        back = [now[end].same_as(known[end]) for end in self.ends]
        slow = [now[end].same_as(slowed(known[end], self.spec.fraction or 1.0)) for end in self.ends]
        return True if all(slow) else False if all(back) else None


def _bucket(answers: Sequence[Answer], fault: Rate, end: End) -> Bucket:
    """One end's bucket out of what `tc` says on all hosts."""
    hosts = list(dict.fromkeys(host for host, _ in fault.ends))
    answer = answers[hosts.index(end[0])]
    for qdisc in json_list(answer.stdout) if answer.exit_code == 0 else []:
        if qdisc.get("dev") == end[1] and qdisc.get("root") and qdisc.get("kind") == "tbf":
            options = qdisc["options"]
            return Bucket(options["rate"], int(options["burst_raw"], 16), options["limit"])
    raise ValueError(f"{end[0]} {end[1]} has no token bucket to change: its topology gives no rate")
