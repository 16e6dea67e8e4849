"""`ip -j`, `tc -j` and `rdma -j`: links, addresses, routes, rules, queueing disciplines, RDMA links."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

from harness.facts.base import Record, number, parser, records, string


@dataclass(frozen=True)
class Link:
    """A network interface. `kind` is that of a virtual one (veth, bond, vlan); empty for hardware."""

    name: str
    mtu: int
    flags: frozenset[str]
    kind: str
    master: str
    lower: str = ""
    """The interface that a VLAN or macvlan is on."""

    @property
    def up(self) -> bool:
        return "UP" in self.flags

    @property
    def carrier(self) -> bool:
        return "LOWER_UP" in self.flags

    @property
    def loopback(self) -> bool:
        return "LOOPBACK" in self.flags


@dataclass(frozen=True)
class Counters:
    """What an interface has counted since it was made."""

    packets: int
    errors: int
    dropped: int


@dataclass(frozen=True)
class Address:
    nic: str
    family: str
    address: str
    prefix: int


@dataclass(frozen=True)
class Route:
    """`dst` is `default` or a network; `nic` is empty for routes that drop, and for those with several `nics`."""

    dst: str
    nic: str
    hops: int
    nics: tuple[str, ...] = ()
    """Those of a route with several next hops."""


@dataclass(frozen=True)
class Qdisc:
    """`rate_gbit` None: it limits nothing. `loss` and `delay_ms` are netem's."""

    nic: str
    kind: str
    rate_gbit: float | None
    loss: float
    delay_ms: float


@dataclass(frozen=True)
class RdmaLink:
    device: str
    port: int
    nic: str


@parser("ip")
def links(text: str) -> tuple[Link, ...]:
    return tuple(_link(each) for each in records(text))


def _link(record: Record) -> Link:
    kind = (record.get("linkinfo") or {}).get("info_kind") or ""
    return Link(
        string(record, "ifname"),
        number(record, "mtu"),
        frozenset(str(flag) for flag in record["flags"]),
        str(kind),
        string(record, "master", ""),
        string(record, "link", ""),
    )


@parser("ip")
def counters(text: str) -> dict[str, Counters]:
    """By interface; from `ip -j -s link`, whose figures have 64 bits in `stats64`."""
    found = {}
    for each in records(text):
        both = each.get("stats64") or each.get("stats") or {}
        ways = [both[way] for way in ("rx", "tx") if way in both]
        # What the switch or a full queue drops is no error of the NIC, but its length and CRC errors are.
        found[string(each, "ifname")] = Counters(
            *(sum(number(way, key, 0) for way in ways) for key in ("packets", "errors", "dropped"))
        )
    return found


@parser("ip")
def addresses(text: str) -> tuple[Address, ...]:
    return tuple(
        Address(
            string(link, "ifname"), string(each, "family"), str(ip_address(each["local"])), number(each, "prefixlen")
        )
        for link in records(text)
        for each in link.get("addr_info", [])
        if each.get("local") and link.get("ifname")
    )


@parser("ip")
def routes(text: str) -> tuple[Route, ...]:
    return tuple(
        Route(
            string(each, "dst"),
            string(each, "dev", ""),
            len(each.get("nexthops", [])) or 1,
            tuple(string(hop, "dev", "") for hop in each.get("nexthops", [])),
        )
        for each in records(text)
    )


@parser("tc")
def qdiscs(text: str) -> tuple[Qdisc, ...]:
    return tuple(_qdisc(each) for each in records(text))


def _qdisc(record: Record) -> Qdisc:
    options = record.get("options") or {}
    rate = options.get("rate")
    if isinstance(rate, dict):  # netem's
        rate = rate.get("rate")
    loss = (options.get("loss-random") or {}).get("loss", 0.0)
    delay_s = (options.get("delay") or {}).get("delay", 0.0)
    return Qdisc(
        string(record, "dev"),
        string(record, "kind"),
        None if rate is None else float(rate) * 8 / 1e9,
        float(loss),
        float(delay_s) * 1000,
    )


@parser("rdma")
def rdma_links(text: str) -> tuple[RdmaLink, ...]:
    return tuple(_rdma_link(each) for each in records(text) if "port" in each or "/" in str(each.get("ifname")))


def _rdma_link(record: Record) -> RdmaLink:
    """Older versions call a port `DEVICE/PORT`."""
    device, _, port = string(record, "ifname").partition("/")
    return RdmaLink(device, int(port) if port else number(record, "port"), string(record, "netdev", ""))


@parser("rdma")
def rdma_kinds(text: str) -> dict[str, str]:
    """By device. `smi`: InfiniBand XDR is managed by it, and nothing is sent through it."""
    return {string(each, "ifname"): string(each, "type", "") for each in records(text)}


@parser("rdma")
def rdma_netns(text: str) -> str:
    """`shared` or `exclusive`; empty where the kernel knows no such thing. iproute2 6.1 prints no JSON here: pairs."""
    if text.strip()[:1] not in ("", "["):
        words = text.split()
        return dict(zip(words[::2], words[1::2], strict=True))["netns"]
    found = records(text)
    return string(found[0], "netns", "") if found else ""


@dataclass(frozen=True)
class Chain:
    """A chain that packets to this host go through."""

    table: str
    name: str
    policy: str


@parser("nft")
def input_chains(text: str) -> tuple[Chain, ...]:
    """Base chains at the input hook, from `nft -j list ruleset`."""
    import json

    rules_found = json.loads(text)["nftables"] if text.strip() else []
    chains = [each["chain"] for each in rules_found if "chain" in each]
    return tuple(
        Chain(
            f"{string(each, 'family')} {string(each, 'table')}", string(each, "name"), string(each, "policy", "accept")
        )
        for each in chains
        if each.get("hook") == "input" and each.get("type") == "filter"
    )
