"""The side channel comes late while the data does not: our probes and acknowledgements wait in a band of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Self

from chaos.faults.kinds.queues import DRAWN_MS, Delay, Queues
from chaos.faults.parts.keep import parse, restorable
from chaos.faults.parts.nft import PRIORITY, joined, table_of
from chaos.faults.parts.qdisc import OURS, Root
from chaos.faults.steps import Answer, Command, Step

LATE_BAND = f"{OURS}4"
WITHIN = "7a8:"
"""The handle of the band's netem."""
BOTH = """
PATH="$PATH:/usr/sbin:/sbin"
tc -batch - && exec nft "$@"
"""


def table_for(nics: Sequence[str]) -> str:
    """One a fault: another one, on other NICs of the host, may be there meanwhile."""
    return table_of(nics).replace("r2cc_", "r2cc_late_")


def undo(nics: Sequence[str]) -> tuple[str, str]:
    """Lines that take the table away, whether or not it is there."""
    table = table_for(nics)
    return f"nft add table inet {table}", f"nft delete table inet {table}"


@dataclass(frozen=True)
class SideChannelLate(Queues):
    """What an nft rule takes for the side channel goes to the fourth band of a `prio`, in which a netem holds it back.

    The side channel is told by its ports as in SideChannelLost; all else goes through three bands as with pfifo_fast.
    """

    Settings = Delay.Settings
    spec: Delay.Settings
    port_ranges: tuple[tuple[str, str], ...] = ()
    kind = "side_channel_late"
    noun = "slow side channel"
    example = {"delay_ms": 20.0}
    does = "holds the side channel back for delay_ms where the NIC sends it (tc prio, netem; nft)"
    peer_sees = "probes answered late on that NIC, while its data comes as ever"
    requires = ("ip", "tc", "nft")
    features = ("netem", "prio", "nft_inet")
    drawn = 1

    @classmethod
    def draw(cls, rng: Random) -> dict[str, Any]:
        return super().draw(rng) | {"delay_ms": rng.choice(DRAWN_MS)}

    def knowing(self, answers: Sequence[Answer]) -> Self:
        fault = super().knowing(answers)
        ports = {host: parse(answer).port_range for host, answer in zip(self.by_host, answers, strict=True)}
        kept = restorable({host: (*undo(self.by_host[host]), *lines) for host, lines in fault.kept})
        return replace(fault, kept=kept, port_ranges=tuple(ports.items()))

    def ours(self, nic: str, root: Root | None) -> str:
        return (
            f"qdisc replace dev {nic} root handle {OURS} prio bands 4 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1\n"
            f"qdisc replace dev {nic} parent {LATE_BAND} handle {WITHIN} netem limit 100000 "
            f"delay {self.spec.delay_ms:g}ms"
        )

    def inject(self) -> list[Step]:
        queues = [step for step in super().inject() if isinstance(step, Command)]
        return [Command(each.on, ("sh", "-c", BOTH, "r2cc", *self._marks(each.on)), each.input) for each in queues]

    def _marks(self, host: str) -> list[str]:
        ports = dict(self.port_ranges).get(host, "LOW-HIGH")
        udp = ["udp", "sport", ports, "udp", "dport", ports]
        form = f"{{ type filter hook output priority {PRIORITY} ; }}"
        table = table_for(self.by_host[host])
        rules = [
            ["add", "rule", "inet", table, "output", "oifname", f'"{nic}"', *udp, "meta", "priority", "set", LATE_BAND]
            for nic in self.by_host[host]
        ]
        return joined([["add", "table", "inet", table], ["add", "chain", "inet", table, "output", form], *rules])
