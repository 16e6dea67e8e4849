"""Links that go down from inside their host, where nobody lets us into the switch.

A host that sets its own NIC down also loses the addresses and routes that hang on it, unlike one whose cable is pulled:
they are recorded and given back. ConnectX keeps its PHY up (KEEP_ETH_LINK_UP), so that the switch and the peers may see
no carrier loss; `method: port` takes the port itself down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from chaos.faults.base import Base, NicLike, agreed, link_flags
from chaos.faults.keep import after_down, parse, record, restorable, restore
from chaos.faults.port import Port, port_of
from chaos.faults.steps import Answer, Command, Step


def names_by_host(nics: Sequence[NicLike]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for nic in nics:
        found.setdefault(nic.host, []).append(nic.name)
    return found


@dataclass(frozen=True)
class HostFault(Base):
    """A fault on NICs that acts inside their hosts, one process on each. `kept`: lines that give back what was."""

    kept: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def by_host(self) -> dict[str, list[str]]:
        """NIC names by host, in order."""
        return names_by_host(self.nics)

    def facts(self) -> list[Step]:
        return [record(host, names) for host, names in self.by_host.items()]


@dataclass(frozen=True)
class HostLinkDown(HostFault):
    """`ip link set down`, or with `method: port` the port of the adapter by its firmware."""

    firmware: tuple[Port, ...] = ()
    kind: ClassVar[str] = "link_down"
    does: ClassVar[str] = "sets the NIC down inside its host (or, with method: port, its port in firmware)"
    peer_sees: ClassVar[str] = "silence; carrier loss at the switch only if the PHY goes down too (not ConnectX's)"
    requires: ClassVar[tuple[str, ...]] = ("ip",)
    confirm_s: ClassVar[float] = 10.0

    @property
    def by_port(self) -> bool:
        return self.spec.method == "port"

    def knowing(self, answers: Sequence[Answer]) -> Self:
        known = {host: parse(answer) for host, answer in zip(self.by_host, answers, strict=True)}
        kept = restorable({host: after_down(known[host], names) for host, names in self.by_host.items()})
        if not self.by_port:
            return replace(self, kept=kept)
        return replace(self, kept=kept, firmware=tuple(port_of(nic, known[nic.host]) for nic in self.nics))

    def inject(self) -> list[Step]:
        if self.by_port:
            return [port.set(down=True) for port in self._ports()]
        lines = {host: [f"link set dev {name} down" for name in names] for host, names in self.by_host.items()}
        return [Command(host, ("ip", "-batch", "-"), "".join(f"{line}\n" for line in lines[host])) for host in lines]

    def revert(self) -> list[Step]:
        if self.by_port:
            return [port.set(down=False) for port in self._ports()]
        up = {host: tuple(f"ip link set dev {name} up" for name in names) for host, names in self.by_host.items()}
        known = dict(self.kept)
        return [restore(host, known.get(host) or up[host]) for host in self.by_host]

    def _ports(self) -> list[Port]:
        return list(self.firmware) or [Port(nic.host, nic.name, "PCI-ADDRESS") for nic in self.nics]

    def probe(self) -> list[Step]:
        return [Command(host, ("ip", "-j", "link", "show")) for host in self.by_host]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        flag, found = "LOWER_UP" if self.by_port else "UP", []
        for (host, names), answer in zip(self.by_host.items(), answers, strict=True):
            found += [flag not in flags for flags in link_flags(answer, names, f"{host} ")]
        return agreed(found)


@dataclass(frozen=True)
class HostFlap(HostLinkDown):
    """HostLinkDown several times in a row; the timeline repeats it."""

    kind: ClassVar[str] = "flap"
    does: ClassVar[str] = "sets the NIC down and up inside its host, several times"
    peer_sees: ClassVar[str] = "as link_down, again before the last outage is forgotten"


@dataclass(frozen=True)
class HostRailDown(HostLinkDown):
    """Every host sets its NIC on the rail down, at the same time."""

    kind: ClassVar[str] = "rail_down"
    does: ClassVar[str] = "sets the NIC of one rail down inside every host, at the same time"
    peer_sees: ClassVar[str] = "all hosts: silence on that rail, within milliseconds of each other"
