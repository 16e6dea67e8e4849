"""Two hosts, their networks in one of four shapes, and what can be done to them. Made for one case, then gone."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from harness.lab.host import NamespaceHost
from harness.lab.lab import Lab
from harness.lab.topology import Topology

RATE_GBIT = 0.2
NICS = 2
MANAGEMENT = "mgmt0"
DATA = ("eth0", "eth1")
HOSTS = ("h0", "h1")
TABLE = "inet r2cc_case"
NOISE = "noise0"
OWN = {"eth0": "eth0", "eth1": "eth1"}
CROSSED = {"eth0": "eth1", "eth1": "eth0"}
FIRST = {"eth0": "eth0", "eth1": "eth0"}
"""Which NIC answers for the address of which (`Bed.answer_arp`)."""


class Shape(StrEnum):
    """How the NICs of the two hosts are connected."""

    RAILS = "a subnet a rail"
    ONE_SUBNET = "one subnet"
    """All NICs on one bridge, with the kernel's own ARP settings: any NIC answers for any address of its host."""
    ROUTED = "routed"
    """Each host's NIC in a subnet of its own; the switch routes between them."""
    LINK_LOCAL = "IPv6 link-local addresses alone"


@dataclass(frozen=True)
class Loss:
    """What comes in by these NICs of these hosts and matches (nft's words), and what becomes of it."""

    match: str
    nics: Sequence[str] = DATA
    hosts: Sequence[str] = HOSTS
    verdict: str = "drop"

    def rule(self, hook: str = "input") -> str:
        names = ", ".join(f'"{nic}"' for nic in self.nics)
        return f"{hook[0]}ifname {{ {names} }} {self.match} {self.verdict};"


@dataclass(frozen=True)
class Bed:
    """What a case does to its two hosts."""

    lab: Lab
    shape: Shape

    def host(self, name: str) -> NamespaceHost:
        return self.lab.hosts[name]

    def lose(
        self,
        match: str,
        nics: Sequence[str] = DATA,
        hosts: Sequence[str] = HOSTS,
        verdict: str = "drop",
        *,
        hook: str = "input",
    ) -> None:
        """What comes in by these NICs (hook output: goes out) and matches (nft's words) is lost; each call adds."""
        rule = Loss(match, nics, hosts, verdict).rule(hook)
        for name in hosts:
            self.host(name).run(["nft", "-f", "-"], input=_table(hook, rule))

    def lose_only(self, losses: Sequence[Loss]) -> None:
        """These, and no others: in one go, so that nothing passes meanwhile."""
        for name in HOSTS:
            rules = " ".join(loss.rule() for loss in losses if name in loss.hosts)
            anew = f"table {TABLE}\ndelete table {TABLE}\n"
            self.host(name).run(["nft", "-f", "-"], input=anew + _table("input", rules))

    def find_again(self, hosts: Sequence[str] = HOSTS) -> None:
        """Ends every loss."""
        for name in hosts:
            self.host(name).run(["nft", "delete", "table", *TABLE.split()])

    def cut(self, nic: str, host: str = "h0") -> None:
        """The cable, at the switch: the host loses its carrier."""
        self.lab.switch.run(["ip", "link", "set", f"{host}-{nic}", "down"])

    def plug(self, nic: str, host: str = "h0") -> None:
        self.lab.switch.run(["ip", "link", "set", f"{host}-{nic}", "up"])

    def unplug_management(self) -> None:
        for name in HOSTS:
            self.cut(MANAGEMENT, name)

    def ip(self, host: str, *lines: str) -> None:
        """These lines of `ip`, in one go."""
        _ip(self, host, lines)

    def address(self, nic: str, host: str = "h0", family: str = "inet") -> tuple[str, int]:
        """The NIC's first address of that family, and the bits of its subnet."""
        said = json.loads(self.host(host).run(["ip", "-j", "addr", "show", "dev", nic]).stdout)
        found = next(info for info in said[0]["addr_info"] if info["family"] == family and info["scope"] == "global")
        return found["local"], found["prefixlen"]

    def answer_arp(self, by: Mapping[str, str]) -> None:
        """In one subnet any NIC answers for any address of its host, the last to answer wins: here NIC `by[nic]`."""
        told = {name: json.loads(self.host(name).run(["ip", "-j", "addr"]).stdout) for name in HOSTS}
        for name, other in (HOSTS, HOSTS[::-1]):
            far = {link["ifname"]: link for link in told[other] if link["ifname"] in DATA}
            for nic, answering in by.items():
                address = next(info["local"] for info in far[nic]["addr_info"] if info["family"] == "inet")
                entry = f"neigh replace {address} lladdr {far[answering]['address']} nud permanent"
                _ip(self, name, (f"{entry} dev {own}" for own in DATA))

    def noise(self, events: int, host: str = "h1") -> None:
        """Link events of another interface, at least so many."""
        lines = [f"link set {NOISE} {'up' if n % 2 == 0 else 'down'}" for n in range(events)]
        self.host(host).run(["ip", "link", "add", NOISE, "type", "veth", "peer", "name", f"{NOISE}p"], check=False)
        self.host(host).run(["ip", "-batch", "-"], input="\n".join([*lines, ""]), timeout_s=30)

    def sent_bytes(self, host: str) -> dict[str, int]:
        """What each data NIC has sent so far."""
        said = json.loads(self.host(host).run(["ip", "-j", "-s", "link"]).stdout)
        return {link["ifname"]: link["stats64"]["tx"]["bytes"] for link in said if link["ifname"] in DATA}

    def busiest_port(self, host: str = "h0") -> int:
        """The source port of the TCP connection that has carried most from there."""
        said = self.host(host).run(["ss", "-tinH"]).stdout
        found = re.findall(r"\S+:(\d+)\s+\S+:\d+[^\n]*\n[^\n]*?bytes_acked:(\d+)", said)
        return int(max(found, key=lambda pair: int(pair[1]))[0])


@contextmanager
def made(shape: Shape = Shape.RAILS, *, mtu: int | None = None, rate_gbit: float = RATE_GBIT) -> Iterator[Bed]:
    """A bed of this shape. Raises LabError where the machine allows none."""
    size = mtu or (1500 if shape is Shape.ROUTED else 9000)
    with Lab.up(Topology(hosts=len(HOSTS), nics=NICS, rate_gbit=rate_gbit, mtu=size)) as lab:
        bed = Bed(lab, shape)
        _SHAPERS[shape](bed)
        yield bed


def _rails(bed: Bed) -> None:
    """As the lab is."""


def _one_subnet(bed: Bed) -> None:
    for number, name in enumerate(HOSTS):
        host = bed.host(name)
        settings = [f"net.ipv4.conf.all.{key}=0" for key in ("arp_ignore", "arp_announce", "arp_filter", "rp_filter")]
        settings += [
            f"net.ipv4.conf.{nic}.{key}=0" for nic in DATA for key in ("arp_ignore", "arp_announce", "rp_filter")
        ]
        host.run(["sysctl", "-qw", *settings])
        _ip(bed, name, (line for nic in DATA for line in (f"addr flush dev {nic}",)))
        _ip(bed, name, (f"addr add 10.1.0.{10 * (number + 1) + n}/24 dev {nic}" for n, nic in enumerate(DATA)))
    _ip(bed, None, (f"link set {name}-eth1 master rail0" for name in HOSTS))


def _routed(bed: Bed) -> None:
    bed.lab.switch.run(["sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0"])
    for number, name in enumerate(HOSTS):
        other = 1 - number
        for rail, nic in enumerate(DATA):
            port = f"{name}-{nic}"
            _ip(bed, None, (f"link set {port} nomaster", f"addr add 10.{rail + 1}.{number + 1}.254/24 dev {port}"))
            _ip(
                bed,
                name,
                (
                    f"addr flush dev {nic}",
                    f"addr add 10.{rail + 1}.{number + 1}.1/24 dev {nic}",
                    f"route add 10.{rail + 1}.{other + 1}.0/24 via 10.{rail + 1}.{number + 1}.254 dev {nic}",
                ),
            )


def _link_local(bed: Bed) -> None:
    for name in HOSTS:
        _ip(bed, name, (f"addr flush dev {nic}" for nic in DATA))
        settings = ["net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.all.accept_dad=0"]
        settings += [f"net.ipv6.conf.{nic}.{key}=0" for nic in DATA for key in ("disable_ipv6", "accept_dad")]
        bed.host(name).run(["sysctl", "-qw", *settings])
    until = time.monotonic() + 60
    while any("scope link" not in _addresses(bed, name, nic) for name in HOSTS for nic in DATA):
        assert time.monotonic() < until, "no link-local addresses after a minute"
        time.sleep(0.05)


def _addresses(bed: Bed, host: str, nic: str) -> str:
    return bed.host(host).run(["ip", "-6", "addr", "show", "dev", nic, "-tentative"]).stdout


def _table(hook: str, rules: str) -> str:
    return f"table {TABLE} {{ chain {hook} {{ type filter hook {hook} priority 0; policy accept; {rules} }}; }}\n"


def _ip(bed: Bed, host: str | None, lines: Iterable[str]) -> None:
    """Lines of `ip -batch` on a host, or on the switch."""
    where = bed.lab.switch if host is None else bed.host(host)
    where.run(["ip", "-batch", "-"], input="\n".join([*lines, ""]))


_SHAPERS = {
    Shape.RAILS: _rails,
    Shape.ONE_SUBNET: _one_subnet,
    Shape.ROUTED: _routed,
    Shape.LINK_LOCAL: _link_local,
}
