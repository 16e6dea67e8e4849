"""Links that go down: in the switch, or from inside their host where nobody lets us into the switch.

A host that sets its own NIC down also loses the addresses and routes that hang on it, unlike one whose cable is pulled:
they are recorded and given back. ConnectX keeps its PHY up (KEEP_ETH_LINK_UP), so that the switch and the peers may see
no carrier loss; `method: port` takes the port itself down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StrictInt

from chaos.faults.fault import SHORT_S, Fault, agreed, link_flags
from chaos.faults.needs import Able
from chaos.faults.parts.host_fault import HostFault
from chaos.faults.parts.keep import after_down, parse, restorable, restore
from chaos.faults.parts.port import Port, port_of
from chaos.faults.spec import FaultSpec, Seconds
from chaos.faults.steps import SWITCH, Answer, Command, Step


@dataclass(frozen=True)
class LinkDown(Fault):
    """Takes the switch's port down: the host loses its carrier and keeps its addresses, as with a pulled cable."""

    class Settings(FaultSpec):
        cuts = True
        method: Literal["admin", "port"] | None = None
        """How, inside a host: `ip link set down`, or the port itself by the adapter's firmware."""

    spec: Settings
    kind = "link_down"
    noun = "link failure"
    does = "takes the switch port of the NIC down (carrier loss)"
    peer_sees = "the host: NO-CARRIER within milliseconds; its peers: silence, no error, no event"
    requires = ("ip",)
    drawn = 6

    @classmethod
    def inside(cls, spec: Any) -> type[Fault]:
        return HostLinkDown

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

    class Settings(LinkDown.Settings):
        timed = False
        repeated = True
        times: Annotated[StrictInt, Field(gt=0, le=10_000)]
        down_s: Seconds
        up_s: Seconds

        @property
        def cycles(self) -> list[tuple[float, float]]:
            period_s = self.down_s + self.up_s
            return [(cycle * period_s, cycle * period_s + self.down_s) for cycle in range(self.times)]

    spec: Settings
    kind = "flap"
    noun = "flapping link"
    example = {"times": 3, "down_s": 1.0, "up_s": 1.0}
    does = "takes the switch port of the NIC down and up, several times"
    peer_sees = "as link_down, again before the last outage is forgotten"
    drawn = 2

    @classmethod
    def draw(cls, rng: Random) -> dict[str, Any]:
        return {"times": rng.randint(2, 4), "down_s": rng.choice(SHORT_S[:4]), "up_s": rng.choice(SHORT_S[1:4])}

    @classmethod
    def inside(cls, spec: Any) -> type[Fault]:
        return HostFlap


@dataclass(frozen=True)
class RailDown(LinkDown):
    """The switch of a rail dies: every host loses the carrier of its NIC on that rail, at once."""

    class Settings(LinkDown.Settings):
        where = "rail"

    spec: Settings
    kind = "rail_down"
    noun = "rail failure"
    does = "takes all switch ports of one rail down, in one command"
    peer_sees = "all hosts: NO-CARRIER on that rail within milliseconds"
    drawn = 1

    @classmethod
    def inside(cls, spec: Any) -> type[Fault]:
        return HostRailDown


@dataclass(frozen=True)
class HostLinkDown(HostFault):
    """`ip link set down`, or with `method: port` the port of the adapter by its firmware."""

    spec: LinkDown.Settings
    firmware: tuple[Port, ...] = ()
    kind = "link_down"
    does = "sets the NIC down inside its host (or, with method: port, its port in firmware)"
    peer_sees = "silence; carrier loss at the switch only if the PHY goes down too (not ConnectX's)"
    requires = ("ip",)
    confirm_s = 10.0

    @classmethod
    def notes(cls, able: Able) -> list[str]:
        if all(driver != "mlx5_core" for driver, _, _ in able.nics.values()):
            return []
        tool = "mlxlink" if "mlxlink" in able.tools else "mlxlink, which is not installed"
        return [f"ConnectX may keep its PHY up; method: port needs {tool}"]

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

    spec: Flap.Settings
    kind = "flap"
    does = "sets the NIC down and up inside its host, several times"
    peer_sees = "as link_down, again before the last outage is forgotten"


@dataclass(frozen=True)
class HostRailDown(HostLinkDown):
    """Every host sets its NIC on the rail down, at the same time."""

    spec: RailDown.Settings
    kind = "rail_down"
    does = "sets the NIC of one rail down inside every host, at the same time"
    peer_sees = "all hosts: silence on that rail, within milliseconds of each other"
