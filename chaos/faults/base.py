"""Faults: what each does and needs, what the peer sees, how it is undone and how it is proved. Pure: nothing runs here.

Those on NICs act on the switch's side, in the lab's switch namespace, so that the host under test keeps its addresses
and routes, as it does when a cable is pulled or a switch drops silently. One fault takes all its NICs in one command.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

from chaos.experiment.fault_spec import FaultSpec
from chaos.faults.steps import SWITCH, Answer, Command, Step


class NicLike(Protocol):
    """What a bed tells about a NIC (docs/reference/contracts.md, Nic)."""

    @property
    def host(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def switch_port(self) -> str: ...


class Fault(Protocol):
    """One reversible way to break something. All its steps are taken at once, each takes milliseconds."""

    kind: ClassVar[str]
    does: ClassVar[str]
    peer_sees: ClassVar[str]
    requires: ClassVar[tuple[str, ...]]
    """Programs needed where its commands run."""
    privilege: ClassVar[str]
    """`root`, `CAP_NET_ADMIN`, or `none`: that of whoever runs the ranks is enough."""
    features: ClassVar[tuple[str, ...]]
    """What else a host must have (chaos/faults/needs.py)."""
    kernel_path_only: ClassVar[bool]
    """RDMA does not notice: its packets never pass the kernel."""
    needs_deadman: ClassVar[bool]
    """Never without a dead-man switch that is armed on the host: we cannot undo it ourselves."""
    confirm_s: ClassVar[float]
    """How long it may take to take effect, and to be gone, after its command; 0: no longer than any fault."""

    def facts(self) -> list[Step]:
        """What has to be known before, to be put back exactly as it was."""
        ...

    def knowing(self, answers: Sequence[Answer]) -> Self:
        """The same fault with what `facts` found. Raises ValueError when it cannot be put back."""
        ...

    def inject(self) -> list[Step]: ...
    def revert(self) -> list[Step]:
        """Safe to take any number of times, also when nothing was injected."""
        ...

    def probe(self) -> list[Step]: ...
    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        """Whether the fault is in effect; None while some of it is and some is not.

        Raises ValueError when the probe proves nothing.
        """
        ...


@dataclass(frozen=True)
class Base:
    """A fault as an experiment asks for it, on the NICs of this bed that it names."""

    spec: FaultSpec
    nics: tuple[NicLike, ...] = ()
    host: str = ""
    """Where it happens: a rank's host, or the first NIC's."""
    kind: ClassVar[str] = ""
    does: ClassVar[str] = ""
    peer_sees: ClassVar[str] = ""
    requires: ClassVar[tuple[str, ...]] = ()
    privilege: ClassVar[str] = "CAP_NET_ADMIN"
    features: ClassVar[tuple[str, ...]] = ()
    kernel_path_only: ClassVar[bool] = False
    needs_deadman: ClassVar[bool] = False
    confirm_s: ClassVar[float] = 0.0

    def facts(self) -> list[Step]:
        return []

    def knowing(self, answers: Sequence[Answer]) -> Self:
        return self

    @property
    def ports(self) -> list[str]:
        """The switch's; empty names where nobody lets us in."""
        return [nic.switch_port for nic in self.nics]


@dataclass(frozen=True)
class LinkDown(Base):
    """Takes the switch's port down: the host loses its carrier and keeps its addresses, as with a pulled cable."""

    kind: ClassVar[str] = "link_down"
    does: ClassVar[str] = "takes the switch port of the NIC down (carrier loss)"
    peer_sees: ClassVar[str] = "the host: NO-CARRIER within milliseconds; its peers: silence, no error, no event"
    requires: ClassVar[tuple[str, ...]] = ("ip",)

    def inject(self) -> list[Step]:
        return self._all("down")

    def revert(self) -> list[Step]:
        return self._all("up")

    def _all(self, word: str) -> list[Step]:
        changes = [("link", "set", "dev", port, word) for port in self.ports]
        if len(changes) == 1:
            return [Command(SWITCH, ("ip", *changes[0]))]
        return [Command(SWITCH, ("ip", "-batch", "-"), "".join(" ".join(words) + "\n" for words in changes))]

    def probe(self) -> list[Step]:
        one = ("dev", *self.ports) if len(self.nics) == 1 else ()
        return [Command(SWITCH, ("ip", "-j", "link", "show", *one))]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        return agreed(["UP" not in flags for flags in link_flags(answers[0], self.ports)])


@dataclass(frozen=True)
class Flap(LinkDown):
    """A loose cable: LinkDown several times in a row. The timeline repeats it; a single outage is the same."""

    kind: ClassVar[str] = "flap"
    does: ClassVar[str] = "takes the switch port of the NIC down and up, several times"
    peer_sees: ClassVar[str] = "as link_down, again before the last outage is forgotten"


@dataclass(frozen=True)
class RailDown(LinkDown):
    """The switch of a rail dies: every host loses the carrier of its NIC on that rail, at once."""

    kind: ClassVar[str] = "rail_down"
    does: ClassVar[str] = "takes all switch ports of one rail down, in one command"
    peer_sees: ClassVar[str] = "all hosts: NO-CARRIER on that rail within milliseconds"


@dataclass(frozen=True)
class BlackHole(Base):
    """Drops every frame from and to the NIC in the switch; both ends keep their carrier and get no event at all.

    An own nft table, so that no rule of anybody else's is ever touched; making and deleting it is one transaction.
    """

    kind: ClassVar[str] = "black_hole"
    does: ClassVar[str] = "silently drops all frames of the NIC in the switch, both directions; the carrier stays up"
    peer_sees: ClassVar[str] = "everybody: silence, no error, no event"
    requires: ClassVar[tuple[str, ...]] = ("nft",)
    features: ClassVar[tuple[str, ...]] = ("nft_bridge",)

    @property
    def table(self) -> str:
        return "r2cc_" + "".join(letter if letter.isalnum() else "_" for letter in self.ports[0])

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
        """Adding the table first makes the deletion right when it is already gone."""
        words = joined([["add", "table", "bridge", self.table], ["delete", "table", "bridge", self.table]])
        return [Command(SWITCH, ("nft", *words))]

    def probe(self) -> list[Step]:
        return [Command(SWITCH, ("nft", "-j", "list", "tables"))]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        if answers[0].exit_code != 0:
            raise ValueError("`nft -j list tables` failed")
        items = json.loads(answers[0].stdout)["nftables"] if answers[0].stdout else []
        return any(
            item.get("table", {}).get("name") == self.table and item["table"].get("family") == "bridge"
            for item in items
        )


@dataclass(frozen=True)
class OneWay(BlackHole):
    """A black hole in one direction: one side still hears the other and believes that all is well."""

    kind: ClassVar[str] = "one_way"
    does: ClassVar[str] = "drops the frames to the NIC (in) or from it (out) in the switch; the others pass"
    peer_sees: ClassVar[str] = "one end: silence; the other: everything but answers"

    def ways(self) -> tuple[str, ...]:
        """A frame to the host leaves the switch through its port."""
        return ("oifname",) if self.spec.direction == "in" else ("iifname",)


@dataclass(frozen=True)
class Loss(BlackHole):
    """A bad cable or a full buffer: some frames are lost, both ways, at random."""

    kind: ClassVar[str] = "loss"
    does: ClassVar[str] = "drops that percentage of the NIC's frames in the switch, both ways, at random"
    peer_sees: ClassVar[str] = "retransmissions, a lower rate, now and then a lost probe"

    def match(self) -> tuple[str, ...]:
        return (
            "numgen",
            "random",
            "mod",
            "100000",
            "<",
            str(min(99_999, max(1, round((self.spec.percent or 0) * 1000)))),
        )


def agreed(answers: Sequence[bool]) -> bool | None:
    """What all say; None when they differ."""
    return answers[0] if len(set(answers)) == 1 else None


def joined(commands: list[list[str]]) -> list[str]:
    """nft's own separator between commands: all of them in one transaction of one process."""
    words = [word for command in commands for word in (*command, ";")]
    return words[:-1]


def link_flags(answer: Answer, names: Sequence[str], of: str = "") -> list[Sequence[str]]:
    """Flags of each of these interfaces by `ip -j link`; `of` says whose they are. ValueError: one is missing."""
    links = json_list(answer.stdout) if answer.exit_code == 0 else []
    flags = {link.get("ifname"): link["flags"] for link in links if "flags" in link}
    if missing := [name for name in names if name not in flags]:
        raise ValueError(f"`ip -j link` said nothing about {of}{', '.join(missing)}")
    return [flags[name] for name in names]


def json_list(text: str) -> list[dict[str, Any]]:
    value = json.loads(text or "[]")
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
