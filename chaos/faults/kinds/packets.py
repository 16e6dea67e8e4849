"""Some of a NIC's packets are lost and the others pass: by protocol or by size. No link is down, no probe need be lost.

An access list, one member of a link aggregation or one way of several that drops (tcp_lost), a firewall (udp_lost), a
switch port that is narrower than its NICs (big_packets_lost). Neighbours (ARP) and ICMP answer as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, StrictBool, StrictInt

from chaos.faults.fault import Fault, agreed, json_list
from chaos.faults.kinds.control import EphemeralUdpLost
from chaos.faults.kinds.drops import HostBlackHole, SwitchDrop
from chaos.faults.parts.nft import asked, dropped, has_table, removed, table_of
from chaos.faults.spec import FaultSpec
from chaos.faults.steps import SWITCH, Answer, Command, Step
from harness.lab.plan import MGMT_NIC

TCP, UDP = ("meta", "l4proto", "tcp"), ("meta", "l4proto", "udp")
ETHERNET_BYTES = 14
"""A packet's length where the kernel is about to send it holds the frame's header; everywhere else it does not."""
GSO_MAX_SEGS = 65535
"""As every interface has it that nobody tuned."""
ABOVE_BYTES = 1500
"""Where nothing else is said: what passes a switch port that was left at the usual MTU."""
SHOW_LINKS = ("ip", "-j", "-d", "link", "show")


@dataclass(frozen=True)
class TcpLost(SwitchDrop):
    """Datagrams pass, and with them every probe by UDP: only who looks at the data itself can tell."""

    class Settings(FaultSpec):
        cuts = True

    spec: Settings
    kind = "tcp_lost"
    noun = "loss of TCP"
    does = "drops the NIC's TCP in the switch, both ways; UDP, ICMP and ARP pass"
    peer_sees = "data that stands still, while probes are answered; no error, no event"
    drawn = 2

    @classmethod
    def inside(cls, spec: Any) -> type[Fault]:
        return HostTcpLost

    def match(self) -> tuple[str, ...]:
        return TCP


@dataclass(frozen=True)
class UdpLost(SwitchDrop):
    """Data passes. With `management`, UDP of the same hosts' management network is lost, too: a firewall."""

    class Settings(FaultSpec):
        management: StrictBool | None = None
        """The management network of the same hosts, too."""

    spec: Settings
    kind = "udp_lost"
    noun = "loss of UDP"
    does = "drops the NIC's UDP in the switch, both ways (management: true: the hosts' mgmt0, too)"
    peer_sees = "no probe answered, while data comes as ever"
    drawn = 2

    @classmethod
    def draw(cls, rng: Random) -> dict[str, Any]:
        return super().draw(rng) | {"management": rng.choice((True, False))}

    @classmethod
    def inside(cls, spec: Any) -> type[Fault]:
        return HostUdpLost

    @property
    def ports(self) -> list[str]:
        hosts = dict.fromkeys(nic.host for nic in self.nics) if self.spec.management else {}
        return [*super().ports, *(f"{host}-{MGMT_NIC}" for host in hosts)]

    def match(self) -> tuple[str, ...]:
        return UDP


@dataclass(frozen=True)
class BigPacketsLost(SwitchDrop):
    """A way that is narrower than both its ends think: what they call a black hole of path MTU.

    A wire loses packets, and TCP hands over up to 64 KiB at once, which are cut into packets only where a real NIC is
    (GSO). A veth pair passes them on whole: a rule would take sixty packets of 1000 bytes for one of 60000. So both
    ends of the cable (host's NIC, switch's port) are told to cut beforehand, and each packet is looked at behind the
    end that sent it: in the switch what the NIC sent, in the host what it was sent.
    """

    class Settings(FaultSpec):
        cuts = True
        above_bytes: Annotated[StrictInt, Field(ge=576, le=65_000)] | None = None
        """Longer IP packets are lost; 1500 where nothing is said."""

        @property
        def longest(self) -> int:
            return ABOVE_BYTES if self.above_bytes is None else self.above_bytes

    spec: Settings
    before: tuple[tuple[str, str, int], ...] = ()
    """(place, interface, gso_max_segs) of both ends."""
    kind = "big_packets_lost"
    noun = "loss of big packets"
    does = "drops the NIC's packets longer than above_bytes (1500), both ways; shorter ones pass"
    peer_sees = "data that stands still, while small probes are answered; no error, no event"
    requires = ("ip", "nft")
    features = ("nft_bridge", "nft_netdev")
    drawn = 2

    @classmethod
    def inside(cls, spec: Any) -> type[Fault]:
        return HostBigPacketsLost

    @property
    def ends(self) -> dict[str, list[str]]:
        """Interfaces by place: the switch's ports, and each host's NICs."""
        return {SWITCH: self.ports, **self.by_host}

    def facts(self) -> list[Step]:
        return [Command(place, SHOW_LINKS) for place in self.ends]

    def knowing(self, answers: Sequence[Answer]) -> Self:
        before = []
        for (place, names), answer in zip(self.ends.items(), answers, strict=True):
            links = links_of(answer)
            if place != SWITCH:
                refuse_narrow(place, names, links, self.spec.longest)
            before += [(place, name, int(links.get(name, {}).get("gso_max_segs", GSO_MAX_SEGS))) for name in names]
        return replace(self, before=tuple(before))

    def ways(self) -> tuple[str, ...]:
        return ("iifname",)

    def match(self) -> tuple[str, ...]:
        return ("meta", "length", ">", str(self.spec.longest))

    def inject(self) -> list[Step]:
        cut = {(place, name): 1 for place, names in self.ends.items() for name in names}
        hooks = {"ingress": self.match()}
        drops = [Command(host, ("nft", *dropped(names, hooks))) for host, names in self.by_host.items()]
        return [*self._segments(cut), *super().inject(), *drops]

    def revert(self) -> list[Step]:
        usual = {(place, name): GSO_MAX_SEGS for place, names in self.ends.items() for name in names}
        whole = usual | {(place, name): segments for place, name, segments in self.before}
        gone = [removed(host, table_of(names), "netdev") for host, names in self.by_host.items()]
        return [*super().revert(), *gone, *self._segments(whole)]

    def _segments(self, most: dict[tuple[str, str], int]) -> list[Step]:
        """One process a place. It holds for connections that are open already, and moves nothing else."""
        lines = {
            place: "".join(f"link set dev {name} gso_max_segs {most[place, name]}\n" for name in names)
            for place, names in self.ends.items()
        }
        return [Command(place, ("ip", "-batch", "-"), text) for place, text in lines.items()]

    def probe(self) -> list[Step]:
        return [*super().probe(), *(asked(host) for host in self.by_host)]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        here = super().is_active(answers[:1])
        there = [
            has_table(answer, table_of(names), ("netdev",))
            for names, answer in zip(self.by_host.values(), answers[1:], strict=True)
        ]
        return None if here is None else agreed([here, *there])


@dataclass(frozen=True)
class HostTcpLost(HostBlackHole):
    """The same by the host's own hand."""

    stand_ins: ClassVar[tuple[str, ...]] = ("inet",)
    kind = "tcp_lost"
    does = "drops TCP that the NIC gets and sends, inside its host; UDP, ICMP and ARP pass"
    peer_sees = "data that stands still, while probes are answered; RDMA: nothing at all"

    def match(self, hook: str) -> tuple[str, ...]:
        return TCP


@dataclass(frozen=True)
class HostUdpLost(HostBlackHole):
    """The same by the host's own hand. Of the management network only what is between ports that the kernels chose, so
    that names and time go on, and the controller's way if it is a tunnel with a well-known port."""

    spec: UdpLost.Settings
    port_ranges: tuple[tuple[str, str], ...] = ()
    stand_ins: ClassVar[tuple[str, ...]] = ("inet",)
    kind = "udp_lost"
    does = (
        "drops UDP that the NIC gets and sends, inside its host (management: true: between ephemeral ports of all NICs)"
    )
    peer_sees = "no probe answered, while data comes as ever; RDMA: nothing at all"

    def match(self, hook: str) -> tuple[str, ...]:
        return UDP

    def _others(self) -> list[ManagementUdpLost]:
        hosts = list(self.by_host) if self.spec.management else []
        known = dict(self.port_ranges)
        return [ManagementUdpLost(self.spec, (), host, port_range=known.get(host, "")) for host in hosts]

    def facts(self) -> list[Step]:
        return [*super().facts(), *(step for other in self._others() for step in other.facts())]

    def knowing(self, answers: Sequence[Answer]) -> Self:
        mine, theirs = answers[: len(self.by_host)], answers[len(self.by_host) :]
        others = [other.knowing([answer]) for other, answer in zip(self._others(), theirs, strict=True)]
        ranges = tuple((other.host, other.port_range) for other in others)
        return replace(super().knowing(mine), port_ranges=ranges)

    def inject(self) -> list[Step]:
        return [*super().inject(), *(step for other in self._others() for step in other.inject())]

    def revert(self) -> list[Step]:
        return [*super().revert(), *(step for other in self._others() for step in other.revert())]

    def probe(self) -> list[Step]:
        return [*super().probe(), *(step for other in self._others() for step in other.probe())]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        mine, theirs = answers[: len(self.by_host)], answers[len(self.by_host) :]
        found = [super().is_active(mine)]
        found += [other.is_active([answer]) for other, answer in zip(self._others(), theirs, strict=True)]
        told = [each for each in found if each is not None]
        return agreed(told) if len(told) == len(found) else None


@dataclass(frozen=True)
class ManagementUdpLost(EphemeralUdpLost):
    """What else of the host HostUdpLost takes: a table of its own, should both kinds be there at once."""

    name: ClassVar[str] = "r2cc_udp"


@dataclass(frozen=True)
class HostBigPacketsLost(HostBlackHole):
    """The same by the host's own hand, where rules see what TCP handed over (GSO) or what was put together again (GRO).

    One of those that is longer holds packets that are, as long as TCP cuts by the NIC's MTU: hence a NIC whose MTU is
    not above `above_bytes` is refused. Where it cuts smaller (tcp_mtu_probing) more is lost than on a wire.
    """

    spec: BigPacketsLost.Settings
    kind = "big_packets_lost"
    does = "drops packets longer than above_bytes (1500) that the NIC gets and sends, inside its host"
    peer_sees = "data that stands still, while small probes are answered; RDMA: nothing at all"
    requires = ("ip", "nft")
    stand_ins: ClassVar[tuple[str, ...]] = ("inet",)

    def match(self, hook: str) -> tuple[str, ...]:
        return ("meta", "length", ">", str(self.spec.longest + (ETHERNET_BYTES if hook == "egress" else 0)))

    def facts(self) -> list[Step]:
        return [*super().facts(), *(Command(host, SHOW_LINKS) for host in self.by_host)]

    def knowing(self, answers: Sequence[Answer]) -> Self:
        for (host, names), answer in zip(self.by_host.items(), answers[len(self.by_host) :], strict=True):
            refuse_narrow(host, names, links_of(answer), self.spec.longest)
        return super().knowing(answers[: len(self.by_host)])


def links_of(answer: Answer) -> dict[str, dict[str, Any]]:
    """By name. ValueError when the host did not say."""
    if answer.exit_code != 0:
        raise ValueError("`ip -j -d link` failed")
    return {str(link["ifname"]): link for link in json_list(answer.stdout) if "ifname" in link}


def refuse_narrow(host: str, names: Sequence[str], links: dict[str, dict[str, Any]], longest: int) -> None:
    """ValueError where nothing would be lost: the fault would be none."""
    for name in names:
        if name not in links:
            raise ValueError(f"`ip -j -d link` said nothing about {host} {name}")
        if links[name]["mtu"] <= longest:
            mtu = links[name]["mtu"]
            raise ValueError(f"{host} {name} has MTU {mtu}: no packet is longer than above_bytes ({longest})")
