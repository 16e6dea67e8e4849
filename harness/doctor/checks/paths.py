"""The ways between data NICs: whether and how packets go, and what stands in between."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator

from harness.doctor.checks.mark import of_fleet, of_host
from harness.doctor.fold import fold
from harness.doctor.model import ERROR, NOTE, WARNING, Fleet, Path, Patient, Seen, usual
from harness.facts import catalogue as facts
from harness.facts.iproute import Address

End = tuple[str, str]
"""Host and NIC."""


@of_fleet("path-reach", facts.LINKS, facts.ADDRESSES, facts.PING, tries_paths=True)
def reach(fleet: Fleet) -> Iterator[Seen]:
    """A NIC that no peer reaches is told once, not by every peer."""
    tried: dict[End, dict[End, bool]] = {}
    for patient in fleet.patients:
        if patient.paths and all(path.small is None for path in patient.paths):
            remedy = "run as root there, or sysctl net.ipv4.ping_group_range='0 2147483647'"
            yield Seen(NOTE, patient.name, "", "ping may not be used there: no way to a peer was tried", remedy)
        for path in patient.paths:
            if path.small is not None:
                here, there = (patient.name, path.nic), (path.peer, path.peer_nic)
                tried.setdefault(here, {})[there] = path.small
                tried.setdefault(there, {}).setdefault(here, path.small)
    alone = {end for end, peers in tried.items() if len(peers) > 1 and not any(peers.values())}
    for (name, nic), peers in tried.items():
        lost = [peer for (peer, peer_nic), came in peers.items() if not came and (peer, peer_nic) not in alone]
        if (name, nic) in alone:
            yield Seen(
                ERROR, name, nic, f"it reaches no NIC of its rail ({fold(host for host, _ in peers)}), though up"
            )
        elif lost:
            yield Seen(ERROR, name, nic, f"no answer from {fold(lost)} on its rail, though both NICs are up")


@of_host("path-mtu", facts.LINKS, facts.ADDRESSES, facts.PING, facts.WHOLE_PING, tries_paths=True)
def path_mtu(patient: Patient) -> Iterator[Seen]:
    for nic, peers in _failing(patient, lambda path: bool(path.small) and path.whole is False).items():
        size = next(path.size for path in patient.paths if path.nic == nic)
        text = f"packets of {size} bytes do not get to {fold(peers)} and back, small ones do"
        yield Seen(ERROR, patient.name, nic, text)


def _failing(patient: Patient, fails: Callable[[Path], bool]) -> dict[str, list[str]]:
    """By NIC: the peers to which the path fails so."""
    found: dict[str, list[str]] = {}
    for path in patient.paths:
        if fails(path):
            found.setdefault(path.nic, []).append(path.peer)
    return found


@of_host("udp", facts.LINKS, facts.ADDRESSES, sends=True)
def udp(patient: Patient) -> Iterator[Seen]:
    """What does not pass at all is `path-reach`'s; where ping is missing, nothing is known of that."""
    unreached = {(path.nic, path.peer) for path in patient.paths if path.small is False}
    lost: dict[str, list[str]] = {}
    for each in patient.datagrams:
        if each.came is False and (each.nic, each.peer) not in unreached:
            lost.setdefault(each.nic, []).append(each.peer)
    for nic, peers in lost.items():
        where = "on its rail" if nic in patient.data else "on the management network"
        yield Seen(
            WARNING, patient.name, nic, f"no UDP datagram gets to {fold(peers)} {where}: R2CC goes over TCP there"
        )
    if patient.datagrams and all(each.came is None for each in patient.datagrams):
        remedy = "install python3 there, by which datagrams are sent and heard"
        yield Seen(NOTE, patient.name, "", "no UDP datagram was sent or heard", remedy)


@of_host("path-route", facts.LINKS, facts.ADDRESSES, tries_paths=True)
def route(patient: Patient) -> Iterator[Seen]:
    """Only where all its ways go wrong: one peer in a wrong subnet is that peer's fault (`rails`)."""
    for nic in patient.data:
        ways = [path.route for path in patient.paths if path.nic == nic and path.route is not None]
        if ways and nic not in ways:
            yield Seen(ERROR, patient.name, nic, f"its traffic leaves by {' and '.join(dict.fromkeys(ways))}")
    for each in patient.known.get(facts.ROUTES) or ():
        if each.hops > 1:
            yield Seen(NOTE, patient.name, each.dst, f"the route has {each.hops} next hops: which NIC is used varies")


@of_host("nic-subnet", facts.ADDRESSES, facts.SYSCTL)
def subnets(patient: Patient) -> Iterator[Seen]:
    """Two NICs in one subnet: by default either answers for the other's address."""
    for network, nics in _shared(patient).items():
        text = f"{' and '.join(nics)} are in one subnet ({network})"
        wrong = [complaint for nic in nics for complaint in _loose(patient, nic)]
        if old := _cannot_bind(patient):
            wrong.append(old)
        if wrong:
            yield Seen(WARNING, patient.name, ",".join(nics), f"{text} with {', '.join(dict.fromkeys(wrong))}")
        else:
            yield Seen(NOTE, patient.name, ",".join(nics), text)


def _cannot_bind(patient: Patient) -> str:
    """SO_BINDTODEVICE was root's before Linux 5.7; empty: lanes can be bound to their NICs, or nobody knows."""
    kernel, identity = patient.known.get(facts.KERNEL), patient.known.get(facts.IDENTITY)
    found = re.match(r"(\d+)\.(\d+)", kernel.release) if kernel is not None else None
    old = found is not None and (int(found[1]), int(found[2])) < (5, 7)
    if found is None or not old or (identity is not None and identity.uid == 0):
        return ""
    return f"Linux {found[0]}, where R2CC cannot bind its lanes to a NIC (5.7 lets all users)"


def _shared(patient: Patient) -> dict[str, list[str]]:
    """NICs by the widest network that holds the addresses of several; a narrower one within it is the same to ARP."""
    ends = [(each, ipaddress.ip_network(f"{each.address}/{each.prefix}", strict=False)) for each in _own(patient)]
    found: dict[str, list[str]] = {}
    for _, network in sorted(ends, key=lambda end: end[1].prefixlen):
        nics = list(dict.fromkeys(each.nic for each, other in ends if network.overlaps(other)))
        if len(nics) > 1 and nics not in found.values():
            found[str(network)] = nics
    return found


def _own(patient: Patient) -> list[Address]:
    """IPv4 addresses of data NICs."""
    addresses = patient.known.get(facts.ADDRESSES) or ()
    return [each for each in addresses if each.family == "inet" and each.nic in patient.data]


def _loose(patient: Patient, nic: str) -> Iterator[str]:
    """The kernel takes the greater of `all` and the NIC's own."""
    told = patient.known.get(facts.SYSCTL) or {}

    def value(name: str) -> int:
        both = [told.get(f"net/ipv4/conf/{where}/{name}", "0") for where in ("all", nic)]
        return max(int(each) for each in both if each.isdecimal())

    if value("arp_ignore") < 1:
        yield "arp_ignore 0"
    if value("arp_announce") < 1:
        yield "arp_announce 0"
    if value("rp_filter") == 1:
        yield "rp_filter 1"


@of_fleet("nic-address", facts.ADDRESSES)
def twins(fleet: Fleet) -> Iterator[Seen]:
    """One address at two NICs: two hosts set up alike, or one host that the inventory names twice."""
    owners: dict[str, list[End]] = {}
    for patient in fleet.patients:
        for nic in patient.data:
            if address := patient.address(nic):
                owners.setdefault(address, []).append((patient.name, nic))
    for address, ends in owners.items():
        for name, nic in ends if len(ends) > 1 else ():
            others = fold(other for other, _ in ends if other != name) or "another NIC here"
            yield Seen(ERROR, name, nic, f"its address {address} is also that of {others}")


@of_fleet("rails", facts.ADDRESSES)
def rails(fleet: Fleet) -> Iterator[Seen]:
    counts = {one.name: len(one.data) for one in fleet.patients if one.data}
    if not counts:
        return
    most = usual(counts.values())
    for name, count in counts.items():
        if count != most:
            yield Seen(WARNING, name, "", f"{count} data NICs, most hosts have {most}")
    for rail, members in fleet.rails().items():
        networks = {(one.name, nic): _network(one, nic) for one, nic in members if one.address(nic)}
        if not networks:
            continue
        common = usual(networks.values())
        for (name, nic), network in networks.items():
            other = next((at for at, those in fleet.rails().items() if at != rail and _has(those, network)), None)
            if network != common and other is not None:
                text = f"it is in the subnet of rail {other} ({network}), not of its own rail {rail} ({common})"
                yield Seen(ERROR, name, nic, text)


def _network(patient: Patient, nic: str) -> str:
    for each in patient.known.get(facts.ADDRESSES) or ():
        if each.nic == nic and each.family == "inet":
            return str(ipaddress.ip_network(f"{each.address}/{each.prefix}", strict=False))
    return ""


def _has(members: list[tuple[Patient, str]], network: str) -> bool:
    """Whether that is the subnet of most of them."""
    found = [told for one, nic in members if (told := _network(one, nic))]
    return bool(found) and usual(found) == network


@of_host("firewall", facts.CHAINS)
def firewall(patient: Patient) -> Iterator[Seen]:
    for chain in patient.known.get(facts.CHAINS) or ():
        if chain.policy == "drop":
            yield Seen(
                WARNING, patient.name, "", f"nft table {chain.table}, chain {chain.name}: drops what is not allowed"
            )
