"""A NIC that is slower than it should be: both ends' token buckets changed, and put back exactly as they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from chaos.faults.fault import Fault, agreed, json_list
from chaos.faults.kinds.adapter import HostRatePort, HostRateVf
from chaos.faults.kinds.queues import Place, Queues, qdiscs_of
from chaos.faults.parts.bucket import LARGEST_PACKET_BYTES, Bucket, bucket_at, slowed
from chaos.faults.parts.keep import Kept, parse
from chaos.faults.parts.qdisc import OURS, Root, bucket_of, has_ours, root_of
from chaos.faults.spec import FaultSpec
from chaos.faults.steps import SWITCH, Answer, Command, Step

End = tuple[str, str]
"""Where a token bucket is: host (or the switch) and device."""
FROM = "-from"
"""A switch that also holds back what comes from a port has a device of the port's name and this for it. The vm lab's
does; the NICs of its guests have no buckets."""
FRAME_BYTES = 1500
"""What such a switch lets through at least at once: frames, of which a larger one takes a full bucket."""


@dataclass(frozen=True)
class Rate(Fault):
    """Slows a NIC down, both ways: its own egress and that of its switch port."""

    class Settings(FaultSpec):
        slows = True
        fraction: Annotated[float, Field(gt=0, lt=1, strict=True)]
        rate_gbit: Annotated[float, Field(gt=0, le=1600, strict=True, allow_inf_nan=False)] | None = None
        """The NIC's full rate, where it does not tell."""
        method: Literal["queue", "vf", "port"] | None = None
        """How, inside a host: by its queues, as a virtual function, or by an InfiniBand port of fewer lanes."""

        def journaled(self) -> dict[str, Any]:
            return {"fraction": self.fraction}

    spec: Settings
    before: tuple[tuple[End, Bucket], ...] = ()
    kind = "rate"
    noun = "slow link"
    example = {"fraction": 0.5}
    does = "slows the NIC to a fraction of its rate, both ways (tc tbf), and puts it back exactly"
    peer_sees = "everybody: a slow path; near zero, silence for seconds"
    requires = ("tc",)
    features = ("tbf",)
    kernel_path_only = True
    drawn = 3

    @classmethod
    def draw(cls, rng: Random) -> dict[str, Any]:
        return super().draw(rng) | {"fraction": rng.choice((0.5, 0.1, 0.01, 0.001))}

    @classmethod
    def inside(cls, spec: Any) -> type[Fault]:
        ways: dict[str | None, type[Fault]] = {"vf": HostRateVf, "port": HostRatePort}
        return ways.get(spec.method, HostRate)

    def as_example(self) -> Self:
        """1 Gbit/s, as the lab makes it."""
        return replace(self, before=tuple((end, Bucket(125_000_000, 16384, 250_000)) for end in self._places))

    @property
    def ends(self) -> list[End]:
        """Where they are; all places where one may be, as long as nobody was asked."""
        return [end for end, _ in self.before] or self._places

    @property
    def _places(self) -> list[End]:
        return [end for nic in self.nics for end in ((SWITCH, nic.switch_port), (nic.host, nic.name))]

    def facts(self) -> list[Step]:
        return self.probe()

    def knowing(self, answers: Sequence[Answer]) -> Self:
        ends: list[End] = []
        for nic in self.nics:
            ahead = (SWITCH, nic.switch_port + FROM)
            ends += [(SWITCH, nic.switch_port), ahead if _root(answers, self, ahead) else (nic.host, nic.name)]
        return replace(self, before=tuple((end, _bucket(answers, self, end)) for end in ends))

    def inject(self) -> list[Step]:
        known = {end: bucket.words() for end, bucket in self._slow().items()}
        return self._change(known, f"tbf rate {self.spec.fraction:g}*RECORDED")

    def revert(self) -> list[Step]:
        return self._change({end: bucket.words() for end, bucket in self.before}, "tbf rate RECORDED")

    def _slow(self) -> dict[End, Bucket]:
        frames = any(device.endswith(FROM) for _, device in self.ends)
        largest = FRAME_BYTES if frames else LARGEST_PACKET_BYTES
        return {end: slowed(bucket, self.spec.fraction, largest) for end, bucket in self.before}

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
        known, slowly = dict(self.before), self._slow()
        now = {end: _bucket(answers, self, end) for end in self.ends}
        back = [now[end].same_as(known[end]) for end in self.ends]
        slow = [now[end].same_as(slowly[end]) for end in self.ends]
        return True if all(slow) else False if all(back) else None


def _root(answers: Sequence[Answer], fault: Rate, end: End) -> Bucket | None:
    """One end's bucket out of what `tc` says on all hosts; None: it has none."""
    hosts = list(dict.fromkeys(host for host, _ in fault.ends))
    answer = answers[hosts.index(end[0])]
    for qdisc in json_list(answer.stdout) if answer.exit_code == 0 else []:
        if qdisc.get("dev") == end[1] and qdisc.get("root") and qdisc.get("kind") == "tbf":
            return bucket_of(qdisc["options"])
    return None


def _bucket(answers: Sequence[Answer], fault: Rate, end: End) -> Bucket:
    found = _root(answers, fault, end)
    if found is None:
        raise ValueError(f"{end[0]} {end[1]} has no token bucket to change: its topology gives no rate")
    return found


@dataclass(frozen=True)
class HostRate(Queues):
    """A fraction of the NIC's rate: of its token bucket, where it has one, else of what the link runs at."""

    spec: Rate.Settings
    rates: tuple[tuple[Place, Bucket], ...] = ()
    kind = "rate"
    does = "slows what the NIC sends to a fraction of its rate (tc tbf) inside its host; not what it gets"
    peer_sees = "a slow path from that host; near zero, silence for seconds; RDMA: nothing at all"
    features = ("tbf",)

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
        if root is None:
            return f"qdisc replace dev {nic} root handle {OURS} tbf rate {self.spec.fraction:g}*FULL"
        slow = slowed(rates[nic], self.spec.fraction).words()
        if root.inner:
            return f"qdisc change dev {nic} root {slow}"
        return f"qdisc replace dev {nic} root handle {OURS} {slow}"

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        """Ours is there, or, where a bucket was changed in place, it has the slow rate."""
        said = {host: qdiscs_of(host, answer) for host, answer in zip(self.by_host, answers, strict=True)}
        found = [self._slow(said[place[0]], place, root) for place, root in self.roots]
        return None if None in found else agreed([each is True for each in found])

    def _slow(self, qdiscs: Sequence[Mapping[str, Any]], place: Place, root: Root) -> bool | None:
        if not root.inner or root.bucket is None:
            return has_ours(qdiscs, place[1])
        now = next(each for each in qdiscs if each.get("dev") == place[1] and each.get("root"))
        bucket = bucket_of(now["options"])
        if bucket.same_as(slowed(root.bucket, self.spec.fraction)):
            return True
        return False if bucket.same_as(root.bucket) else None
