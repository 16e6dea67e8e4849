"""Frames that are dropped inside the host, where nobody lets us into the switch, by an own nft table.

Only what passes the kernel: RDMA goes by it (but soft-RoCE does not). Where the kernel has no egress hook (before
5.16), chains of the families inet and arp stand in.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from chaos.faults.base import Loss, agreed, joined
from chaos.faults.host import HostFault
from chaos.faults.steps import Answer, Command, Step

PRIORITY = "-400"
"""Before anybody's rules, connection tracking included."""


@dataclass(frozen=True)
class HostBlackHole(HostFault):
    """Drops all that the NIC gets and all that it sends; its carrier stays, and nobody is told."""

    without_egress: tuple[str, ...] = ()
    """Hosts whose kernel has no hook behind routing for a device."""
    stand_ins: ClassVar[tuple[str, ...]] = ("inet", "arp")
    """Families whose chains see what its rules match, on those hosts."""
    kind: ClassVar[str] = "black_hole"
    does: ClassVar[str] = "silently drops all that the NIC gets and sends, inside its host; the carrier stays up"
    peer_sees: ClassVar[str] = "everybody: silence, no error, no event; RDMA: nothing at all"
    requires: ClassVar[tuple[str, ...]] = ("nft",)
    features: ClassVar[tuple[str, ...]] = ("nft_netdev",)
    kernel_path_only: ClassVar[bool] = True

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
        """Adding a table first makes its deletion right when it is already gone."""
        return [
            Command(host, ("nft", *joined([line for family in self._of(host) for line in self._gone(family, host)])))
            for host in self.by_host
        ]

    def _of(self, host: str) -> tuple[str, ...]:
        return self.stand_ins if host in self.without_egress else ("netdev",)

    def _gone(self, family: str, host: str) -> list[list[str]]:
        return [[word, "table", family, self.table(host)] for word in ("add", "delete")]

    def _netdev(self, host: str) -> list[str]:
        table, lines = self.table(host), [["add", "table", "netdev", self.table(host)]]
        for number, name in enumerate(self.by_host[host]):
            for hook, wanted in (("ingress", self.inwards), ("egress", self.outwards)):
                if not wanted:
                    continue
                form = f'{{ type filter hook {hook} device "{name}" priority {PRIORITY} ; }}'
                lines.append(["add", "chain", "netdev", table, f"{hook}{number}", form])
                rule = ["add", "rule", "netdev", table, f"{hook}{number}"]
                lines.append([*rule, *self.match(hook), "counter", "drop"])
        return joined(lines)

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
        return [Command(host, ("nft", "-j", "list", "tables")) for host in self.by_host]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        found = [
            has_table(answer, self.table(host), self._of(host))
            for host, answer in zip(self.by_host, answers, strict=True)
        ]
        return agreed(found)


@dataclass(frozen=True)
class HostOneWay(HostBlackHole):
    """In one direction alone."""

    kind: ClassVar[str] = "one_way"
    does: ClassVar[str] = "drops what the NIC gets (in) or sends (out), inside its host; the other direction passes"
    peer_sees: ClassVar[str] = "one end: silence; the other: everything but answers; RDMA: nothing at all"

    @property
    def inwards(self) -> bool:
        return self.spec.direction == "in"

    @property
    def outwards(self) -> bool:
        return self.spec.direction == "out"


@dataclass(frozen=True)
class HostLoss(HostBlackHole):
    """Some are lost, both ways, at random."""

    kind: ClassVar[str] = "loss"
    does: ClassVar[str] = "drops that percentage of what the NIC gets and sends, inside its host, at random"
    peer_sees: ClassVar[str] = "retransmissions, a lower rate, now and then a lost probe; RDMA: nothing at all"

    def match(self, hook: str) -> tuple[str, ...]:
        return Loss(self.spec).match()


def table_of(names: Sequence[str]) -> str:
    """Of a fault on these NICs of a host."""
    return "r2cc_" + "".join(letter if letter.isalnum() else "_" for letter in names[0])


def has_table(answer: Answer, name: str, families: Sequence[str]) -> bool:
    """ValueError when nft did not say."""
    if answer.exit_code != 0:
        raise ValueError("`nft -j list tables` failed")
    items = json.loads(answer.stdout)["nftables"] if answer.stdout else []
    tables = [item["table"] for item in items if "table" in item]
    return any(table["name"] == name and table["family"] in families for table in tables)
