"""Faults: what each does and needs, what the peer sees, how it is undone and how it is proved. Pure: nothing runs here.

All three act on the switch's side of the NIC, in the lab's switch namespace, so that the host under test keeps its
addresses and routes, as it does when a cable is pulled or a switch drops silently.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from chaos.model import FaultSpec

Argv = list[str]


class Fault(Protocol):
    """One reversible way to break a NIC. Every command is one process, so that it takes effect within milliseconds."""

    kind: ClassVar[str]
    does: ClassVar[str]
    peer_sees: ClassVar[str]
    requires: ClassVar[tuple[str, ...]]
    """Programs needed where the switch's side of the NIC is."""

    def inject(self) -> Argv: ...
    def revert(self) -> Argv:
        """Safe to run any number of times, also when nothing was injected."""
        ...

    def probe(self) -> Argv: ...
    def is_active(self, exit_code: int, stdout: str) -> bool:
        """True when the probe's output proves that the fault is in effect. Raises ValueError when it proves nothing."""
        ...


@dataclass(frozen=True)
class LinkDown:
    """Takes the switch's port down: the host loses its carrier and keeps its addresses, as with a pulled cable."""

    port: str
    kind: ClassVar[str] = "link_down"
    does: ClassVar[str] = "takes the switch port of the NIC down (carrier loss)"
    peer_sees: ClassVar[str] = "the host: NO-CARRIER within milliseconds; its peers: silence, no error, no event"
    requires: ClassVar[tuple[str, ...]] = ("ip",)

    def inject(self) -> Argv:
        return ["ip", "link", "set", "dev", self.port, "down"]

    def revert(self) -> Argv:
        return ["ip", "link", "set", "dev", self.port, "up"]

    def probe(self) -> Argv:
        return ["ip", "-j", "link", "show", "dev", self.port]

    def is_active(self, exit_code: int, stdout: str) -> bool:
        links = _json_list(stdout) if exit_code == 0 else []
        if len(links) != 1 or "flags" not in links[0]:
            raise ValueError(f"`ip -j link` said nothing about {self.port}")
        return "UP" not in links[0]["flags"]


@dataclass(frozen=True)
class BlackHole:
    """Drops every frame from and to the NIC in the switch; both ends keep their carrier and get no event at all.

    An own nft table, so that no rule of anybody else's is ever touched; making and deleting it is one transaction.
    """

    port: str
    kind: ClassVar[str] = "black_hole"
    does: ClassVar[str] = "silently drops all frames of the NIC in the switch, both directions; the carrier stays up"
    peer_sees: ClassVar[str] = "everybody: silence, no error, no event"
    requires: ClassVar[tuple[str, ...]] = ("nft",)

    @property
    def table(self) -> str:
        return "r2cc_" + "".join(letter if letter.isalnum() else "_" for letter in self.port)

    def inject(self) -> Argv:
        chain = ["add", "chain", "bridge", self.table, "cut", "{ type filter hook forward priority 0 ; }"]
        rules = [
            ["add", "rule", "bridge", self.table, "cut", way, f'"{self.port}"', "counter", "drop"]
            for way in ("iifname", "oifname")
        ]
        return ["nft", *_joined([["add", "table", "bridge", self.table], chain, *rules])]

    def revert(self) -> Argv:
        """Adding the table first makes the deletion right when it is already gone."""
        return ["nft", *_joined([["add", "table", "bridge", self.table], ["delete", "table", "bridge", self.table]])]

    def probe(self) -> Argv:
        return ["nft", "-j", "list", "tables"]

    def is_active(self, exit_code: int, stdout: str) -> bool:
        if exit_code != 0:
            raise ValueError("`nft -j list tables` failed")
        items = json.loads(stdout)["nftables"] if stdout else []
        return any(
            item.get("table", {}).get("name") == self.table and item["table"].get("family") == "bridge"
            for item in items
        )


@dataclass(frozen=True)
class Flap(LinkDown):
    """A loose cable: LinkDown several times in a row. The timeline repeats it; a single outage is the same."""

    kind: ClassVar[str] = "flap"
    does: ClassVar[str] = "takes the switch port of the NIC down and up, several times"
    peer_sees: ClassVar[str] = "as link_down, again before the last outage is forgotten"


KINDS: Mapping[str, type[LinkDown | BlackHole]] = {fault.kind: fault for fault in (LinkDown, BlackHole, Flap)}


def fault_of(spec: FaultSpec, switch_port: str) -> Fault:
    """The fault that an experiment asks for, on the switch port its NIC is plugged into."""
    return KINDS[spec.kind](switch_port)


def requirements() -> dict[str, tuple[str, ...]]:
    """Programs that each kind needs."""
    return {kind: fault.requires for kind, fault in KINDS.items()}


def _joined(commands: list[Argv]) -> Argv:
    """nft's own separator between commands: all of them in one transaction of one process."""
    words = [word for command in commands for word in (*command, ";")]
    return words[:-1]


def _json_list(text: str) -> list[dict[str, Any]]:
    value = json.loads(text or "[]")
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def catalogue() -> list[dict[str, Any]]:
    """Every fault with what it does and its commands for an example port; for `r2cc chaos faults`."""
    entries = []
    for kind, make in KINDS.items():
        fault: Fault = make("h1-eth2")
        commands = {
            name: shlex.join(argv)
            for name, argv in (("inject", fault.inject()), ("revert", fault.revert()), ("probe", fault.probe()))
        }
        entries.append(
            {
                "kind": kind,
                "does": fault.does,
                "peer_sees": fault.peer_sees,
                "requires": list(fault.requires),
                "on": "switch",
                **commands,
            }
        )
    return entries
