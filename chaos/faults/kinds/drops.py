"""Frames that are dropped by an nft table of our own: in the switch, or inside the host where nobody lets us into it.

Only what passes the kernel: RDMA goes by it (but soft-RoCE does not). Where the kernel has no egress hook (before
5.16), chains of the families inet and arp stand in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar, Literal, Self

from chaos.faults.fault import Fault, agreed
from chaos.faults.parts.host_fault import HostFault
from chaos.faults.parts.nft import PRIORITY, asked, dropped, has_table, joined, removed, table_of
from chaos.faults.spec import FaultSpec, Percent
from chaos.faults.steps import SWITCH, Answer, Command, Step


@dataclass(frozen=True)
class SwitchDrop(Fault):
    """Drops frames of the NICs in the switch; both ends keep their carrier and get no event at all.

    An own nft table, so that no rule of anybody else's is ever touched; making and deleting it is one transaction.
    """

    requires: ClassVar[tuple[str, ...]] = ("nft",)
    features: ClassVar[tuple[str, ...]] = ("nft_bridge",)

    @property
    def table(self) -> str:
        return table_of(self.ports)

    def ways(self) -> tuple[str, ...]:
        return ("iifname", "oifname")

    def match(self) -> tuple[str, ...]:
        """What else a frame must match to be dropped."""
        return ()

    def inject(self) -> list[Step]:
        chain = ["add", "chain", "bridge", self.table, "cut", "{ type filter hook forward priority 0 ; }"]
        rules = [
            ["add", "rule", "bridge", self.table, "cut", way, f'"{port}"', *self.match(), "counter", "drop"]
            for port in self.ports
            for way in self.ways()
        ]
        return [Command(SWITCH, ("nft", *joined([["add", "table", "bridge", self.table], chain, *rules])))]

    def revert(self) -> list[Step]:
        return [removed(SWITCH, self.table, "bridge")]

    def probe(self) -> list[Step]:
        return [asked(SWITCH)]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        return has_table(answers[0], self.table, ("bridge",))


@dataclass(frozen=True)
class BlackHole(SwitchDrop):
    """Every frame from and to the NIC is lost."""

    class Settings(FaultSpec):
        cuts = True

    kind = "black_hole"
    noun = "silent black hole"
    does = "silently drops all frames of the NIC in the switch, both directions; the carrier stays up"
    peer_sees = "everybody: silence, no error, no event"
    drawn = 5

    @classmethod
    def inside(cls, spec: Any) -> type[Fault]:
        return HostBlackHole


@dataclass(frozen=True)
class OneWay(BlackHole):
    """A black hole in one direction: one side still hears the other and believes that all is well."""

    class Settings(BlackHole.Settings):
        direction: Literal["in", "out"]
        """`in`: frames to the host are lost; `out`: those from it."""

    spec: Settings
    kind = "one_way"
    noun = "one-way black hole"
    example = {"direction": "in"}
    does = "drops the frames to the NIC (in) or from it (out) in the switch; the others pass"
    peer_sees = "one end: silence; the other: everything but answers"
    drawn = 3

    @classmethod
    def draw(cls, rng: Random) -> dict[str, Any]:
        return super().draw(rng) | {"direction": rng.choice(("in", "out"))}

    @classmethod
    def inside(cls, spec: Any) -> type[Fault]:
        return HostOneWay

    def ways(self) -> tuple[str, ...]:
        """A frame to the host leaves the switch through its port."""
        return ("oifname",) if self.spec.direction == "in" else ("iifname",)


@dataclass(frozen=True)
class Loss(SwitchDrop):
    """A bad cable or a full buffer: some frames are lost, both ways, at random."""

    class Settings(FaultSpec):
        percent: Percent

    spec: Settings
    kind = "loss"
    noun = "packet loss"
    example = {"percent": 1.0}
    does = "drops that percentage of the NIC's frames in the switch, both ways, at random"
    peer_sees = "retransmissions, a lower rate, now and then a lost probe"
    drawn = 2

    @classmethod
    def draw(cls, rng: Random) -> dict[str, Any]:
        return super().draw(rng) | {"percent": rng.choice((0.1, 1.0, 5.0, 30.0))}

    @classmethod
    def inside(cls, spec: Any) -> type[Fault]:
        return HostLoss

    def match(self) -> tuple[str, ...]:
        return at_random(self.spec.percent)


@dataclass(frozen=True)
class HostBlackHole(HostFault):
    """Drops all that the NIC gets and all that it sends; its carrier stays, and nobody is told."""

    without_egress: tuple[str, ...] = ()
    """Hosts whose kernel has no hook behind routing for a device."""
    stand_ins: ClassVar[tuple[str, ...]] = ("inet", "arp")
    """Families whose chains see what its rules match, on those hosts."""
    kind = "black_hole"
    does = "silently drops all that the NIC gets and sends, inside its host; the carrier stays up"
    peer_sees = "everybody: silence, no error, no event; RDMA: nothing at all"
    requires: ClassVar[tuple[str, ...]] = ("nft",)
    features: ClassVar[tuple[str, ...]] = ("nft_netdev",)
    kernel_path_only = True

    @property
    def inwards(self) -> bool:
        return True

    @property
    def outwards(self) -> bool:
        return True

    def match(self, hook: str) -> tuple[str, ...]:
        """What else a packet must match to be dropped there."""
        return ()

    def facts(self) -> list[Step]:
        """Whether the kernel would take it: `-c` asks and changes nothing."""
        return [Command(host, ("nft", "-c", *self._netdev(host))) for host in self.by_host]

    def knowing(self, answers: Sequence[Answer]) -> Self:
        refused = [host for host, answer in zip(self.by_host, answers, strict=True) if answer.exit_code != 0]
        return replace(self, without_egress=tuple(refused))

    def table(self, host: str) -> str:
        return table_of(self.by_host[host])

    def inject(self) -> list[Step]:
        return [
            Command(host, ("nft", *(self._families(host) if host in self.without_egress else self._netdev(host))))
            for host in self.by_host
        ]

    def revert(self) -> list[Step]:
        return [removed(host, self.table(host), *self._of(host)) for host in self.by_host]

    def _of(self, host: str) -> tuple[str, ...]:
        return self.stand_ins if host in self.without_egress else ("netdev",)

    def _netdev(self, host: str) -> list[str]:
        hooks = ["ingress"] * self.inwards + ["egress"] * self.outwards
        return dropped(self.by_host[host], {hook: self.match(hook) for hook in hooks})

    def _families(self, host: str) -> list[str]:
        table, lines = self.table(host), []
        hooks = [("prerouting", "iifname")] * self.inwards + [("output", "oifname")] * self.outwards
        for family in self.stand_ins:
            lines.append(["add", "table", family, table])
            for of_inet, way in hooks:
                hook = "input" if (family, of_inet) == ("arp", "prerouting") else of_inet
                form = f"{{ type filter hook {hook} priority {PRIORITY} ; }}"
                lines.append(["add", "chain", family, table, hook, form])
                rule = ["add", "rule", family, table, hook, way]
                lines += [[*rule, f'"{name}"', *self.match(hook), "counter", "drop"] for name in self.by_host[host]]
        return joined(lines)

    def probe(self) -> list[Step]:
        return [asked(host) for host in self.by_host]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        found = [
            has_table(answer, self.table(host), self._of(host))
            for host, answer in zip(self.by_host, answers, strict=True)
        ]
        return agreed(found)


@dataclass(frozen=True)
class HostOneWay(HostBlackHole):
    """In one direction alone."""

    spec: OneWay.Settings
    kind = "one_way"
    does = "drops what the NIC gets (in) or sends (out), inside its host; the other direction passes"
    peer_sees = "one end: silence; the other: everything but answers; RDMA: nothing at all"

    @property
    def inwards(self) -> bool:
        return self.spec.direction == "in"

    @property
    def outwards(self) -> bool:
        return self.spec.direction == "out"


@dataclass(frozen=True)
class HostLoss(HostBlackHole):
    """Some are lost, both ways, at random."""

    spec: Loss.Settings
    kind = "loss"
    does = "drops that percentage of what the NIC gets and sends, inside its host, at random"
    peer_sees = "retransmissions, a lower rate, now and then a lost probe; RDMA: nothing at all"

    def match(self, hook: str) -> tuple[str, ...]:
        return at_random(self.spec.percent)


def at_random(percent: float) -> tuple[str, ...]:
    """What matches that part of all frames."""
    return ("numgen", "random", "mod", "100000", "<", str(min(99_999, max(1, round(percent * 1000)))))
