"""A NIC that loses its address, and with it the GID of its RDMA device: an operator's or a DHCP client's mistake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from chaos.faults.fault import Fault, NicLike, agreed, json_list
from chaos.faults.parts.keep import parse, record, restorable, restore
from chaos.faults.spec import FaultSpec
from chaos.faults.steps import Answer, Command, Step


@dataclass(frozen=True)
class AddressRemoved(Fault):
    """Takes the NIC's address away inside its host, and gives it back with the prefix and broadcast it had.

    The link stays up: nothing but the address (and the routes and the GID that go with it) is lost. Routes that we did
    not make come back with it.
    """

    class Settings(FaultSpec):
        cuts = True

    spec: Settings
    before: tuple[str, ...] = ()
    """Of each NIC, the words of `ip addr replace` that give its address back."""
    kept: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """By host, all that goes with the addresses."""
    kind = "address_removed"
    noun = "loss of an address"
    does = "takes the NIC's address away inside its host, with the GID of its RDMA device, and puts it back"
    peer_sees = "the host: an address event, routes gone, RDMA sends flushed; its peers: silence"
    requires = ("ip",)
    drawn = 2
    drawn_over_rdma = 4
    """Its loss ends RDMA at once."""

    def as_example(self) -> Self:
        return replace(self, before=tuple(f"{nic.address}/24" for nic in self.nics))

    @property
    def hosts(self) -> dict[str, list[NicLike]]:
        found: dict[str, list[NicLike]] = {}
        for nic in self.nics:
            found.setdefault(nic.host, []).append(nic)
        return found

    def facts(self) -> list[Step]:
        return [record(host, [nic.name for nic in nics]) for host, nics in self.hosts.items()]

    def knowing(self, answers: Sequence[Answer]) -> Self:
        lines, before = {}, {}
        for (host, nics), answer in zip(self.hosts.items(), answers, strict=True):
            kept, names = parse(answer), [nic.name for nic in nics]
            addresses = [line for name in names for line in kept.addresses(name, every=True)]
            lines[host] = [*addresses, *kept.routes(names), *kept.permanent(names)]
            for nic in nics:
                entries = kept.link(nic.name).get("addr_info", [])
                before[nic.host, nic.name] = _words(
                    next((entry for entry in entries if entry.get("local") == nic.address), {})
                )
        known = tuple(before[nic.host, nic.name] for nic in self.nics)
        return replace(self, before=known, kept=restorable(lines))

    def inject(self) -> list[Step]:
        known = self.before or tuple(f"{nic.address}/PREFIX" for nic in self.nics)
        return self._all({nic: f"addr del {words.split()[0]}" for nic, words in zip(self.nics, known, strict=True)})

    def revert(self) -> list[Step]:
        if self.kept:
            return [restore(host, lines) for host, lines in self.kept]
        known = self.before or tuple(f"{nic.address}/RECORDED" for nic in self.nics)
        return self._all({nic: f"addr replace {words}" for nic, words in zip(self.nics, known, strict=True)})

    def _all(self, words: dict[NicLike, str]) -> list[Step]:
        """One process a host: all of its NICs change together."""
        batches = {host: "".join(f"{words[nic]} dev {nic.name}\n" for nic in nics) for host, nics in self.hosts.items()}
        return [Command(host, ("ip", "-batch", "-"), lines) for host, lines in batches.items()]

    def probe(self) -> list[Step]:
        return [Command(host, ("ip", "-j", "addr", "show")) for host in self.hosts]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        return agreed([not self._found(answers, nic) for nic in self.nics])

    def _found(self, answers: Sequence[Answer], nic: NicLike) -> dict[str, Any]:
        """The address as its host shows it; empty when it is gone. ValueError when the host shows no such NIC."""
        answer = answers[list(self.hosts).index(nic.host)]
        links = json_list(answer.stdout) if answer.exit_code == 0 else []
        link = next((link for link in links if link.get("ifname") == nic.name), None)
        if link is None:
            raise ValueError(f"`ip -j addr` said nothing about {nic.host} {nic.name}")
        return next((entry for entry in link.get("addr_info", []) if entry.get("local") == nic.address), {})


def _words(entry: dict[str, Any]) -> str:
    if not entry:
        raise ValueError("the NIC has no address to take away")
    broadcast = f" broadcast {entry['broadcast']}" if "broadcast" in entry else ""
    return f"{entry['local']}/{entry['prefixlen']}{broadcast}"
