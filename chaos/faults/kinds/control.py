"""Faults of the control traffic: the side channel of R2CC, and the controller's own way to a host."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar, Self

from chaos.faults.fault import Fault
from chaos.faults.kinds.drops import at_random
from chaos.faults.parts.nft import PRIORITY, asked, has_table, joined, removed
from chaos.faults.spec import FaultSpec, Percent
from chaos.faults.steps import Answer, Command, Step

DROP = ("counter", "drop")
DELAY_S = 1.0
"""The controller is cut off so long after it was told that it will be: its command's answer must come through."""
CUT = r"""
PATH="$PATH:/usr/sbin:/sbin"
wait=$1 table=$2 address=$3 seconds=$4; shift 4
nft "$@" || exit
exec </dev/null >/dev/null 2>&1
setsid sh -c 'sleep "$1"; exec nft add element inet "$2" cut "{ $3 timeout ${4}s }"' r2cc \
  "$wait" "$table" "$address" "$seconds" &
"""
"""A session of its own: what a command leaves behind in its process group ends with it."""


@dataclass(frozen=True)
class OwnTable(Fault):
    """Drops by rules in one nft table of our own, family inet, on one host."""

    name: ClassVar[str] = ""
    requires: ClassVar[tuple[str, ...]] = ("nft",)
    features: ClassVar[tuple[str, ...]] = ("nft_inet",)
    kernel_path_only = True

    def revert(self) -> list[Step]:
        return [removed(self.host, self.name, "inet")]

    def probe(self) -> list[Step]:
        return [asked(self.host)]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        return has_table(answers[0], self.name, ("inet",))

    def chain(self, name: str) -> list[str]:
        form = f"{{ type filter hook {name} priority {PRIORITY} ; }}"
        return ["add", "chain", "inet", self.name, name, form]


@dataclass(frozen=True)
class EphemeralUdpLost(OwnTable):
    """Drops UDP between ports that both kernels chose; what else uses UDP (names, time, RoCE, tunnels) has a well-known
    port at one end."""

    port_range: str = ""
    """The range from which the kernel chooses, as `low-high`."""

    def match(self) -> tuple[str, ...]:
        """What else a packet must match to be dropped."""
        return ()

    def facts(self) -> list[Step]:
        return [Command(self.host, ("cat", "/proc/sys/net/ipv4/ip_local_port_range"))]

    def knowing(self, answers: Sequence[Answer]) -> Self:
        words = answers[0].stdout.split()
        if answers[0].exit_code != 0 or len(words) != 2 or not all(word.isdigit() for word in words):
            raise ValueError(f"{self.host} does not say its range of local ports")
        return replace(self, port_range="-".join(words))

    def inject(self) -> list[Step]:
        ports = self.port_range or "LOW-HIGH"
        rules = [
            [*words, "udp", "sport", ports, "udp", "dport", ports, *self.match(), *DROP]
            for words in (["add", "rule", "inet", self.name, name] for name in ("input", "output"))
        ]
        lines = [["add", "table", "inet", self.name], self.chain("input"), self.chain("output"), *rules]
        return [Command(self.host, ("nft", *joined(lines)))]


@dataclass(frozen=True)
class SideChannelLost(EphemeralUdpLost):
    """Our probes, acknowledgements and news are lost, the data is not. `percent` of it, or all."""

    class Settings(FaultSpec):
        where = "host"
        percent: Percent | None = None

    spec: Settings
    kind = "side_channel_lost"
    noun = "loss of the side channel"
    does = "drops the side channel (UDP between ephemeral ports) of all NICs of a host, both ways"
    peer_sees = "its peers: no probe of that host answered, while its data still comes"
    drawn = 2
    name: ClassVar[str] = "r2cc_side"

    @classmethod
    def draw(cls, rng: Random) -> dict[str, Any]:
        percent = rng.choice((None, None, 10.0, 50.0))
        return super().draw(rng) | ({} if percent is None else {"percent": percent})

    def match(self) -> tuple[str, ...]:
        return () if self.spec.percent is None else at_random(self.spec.percent)


@dataclass(frozen=True)
class ControllerLost(OwnTable):
    """The controller cannot reach the host any more, over the very connection by which it broke it.

    The drop is an element of an nft set that the kernel itself forgets when the fault is over; whatever is left then
    the revert removes, ours or the one armed on the host. The cut comes a second after the table, so that the answer
    gets through.
    """

    class Settings(FaultSpec):
        where = "host"

    spec: Settings
    ends: tuple[str, str] = ("", "")
    """Of the SSH connection, as the host sees it: the controller's (or jump host's) address, and the host's port."""
    kind = "controller_lost"
    noun = "loss of the controller"
    example = {"duration_s": 20.0}
    does = "cuts the controller's own SSH path on that host; ends by itself, in the kernel"
    peer_sees = "the controller: a lost connection; the workload: nothing"
    name: ClassVar[str] = "r2cc_controller"
    requires = ("nft", "sh", "sleep", "setsid")
    features = ("nft_inet", "ssh")
    kernel_path_only = False
    needs_deadman = True

    def facts(self) -> list[Step]:
        return [Command(self.host, ("sh", "-c", 'printf %s "$SSH_CONNECTION"'))]

    def knowing(self, answers: Sequence[Answer]) -> Self:
        words = answers[0].stdout.split()
        if len(words) != 4 or not words[3].isdigit():
            raise ValueError(f"{self.host} is not reached over SSH: nobody can be cut off")
        return replace(self, ends=(str(ipaddress.ip_address(words[0].partition("%")[0])), words[3]))

    def inject(self) -> list[Step]:
        theirs, port = self.ends if self.ends[0] else ("CONTROLLER", "22")
        family = "ip6" if ":" in theirs else "ip"
        kind = "ipv6_addr" if family == "ip6" else "ipv4_addr"
        lines = [
            ["add", "table", "inet", self.name],
            ["add", "set", "inet", self.name, "cut", f"{{ type {kind} ; flags timeout ; }}"],
            self.chain("input"),
            self.chain("output"),
            *(
                ["add", "rule", "inet", self.name, chain, family, addresses, "@cut", "tcp", ports, port, *DROP]
                for chain, addresses, ports in (("input", "saddr", "dport"), ("output", "daddr", "sport"))
            ),
        ]
        lasts = max(1, round((self.spec.duration_s or DELAY_S) - DELAY_S))
        words = (f"{DELAY_S:g}", self.name, theirs, str(lasts))
        return [Command(self.host, ("sh", "-c", CUT, "r2cc", *words, *joined(lines)))]
