"""Which NICs carry data where nobody says so: never those over which we come, or the default route goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ipaddress import ip_address

from harness.doctor.rdma_nics import by_nic
from harness.facts import Known, catalogue
from harness.facts.iproute import Address, Link

VIRTUAL_KINDS = ("", "veth", "vlan", "bond", "macvlan", "ipvlan", "ipoib")
LINK_LOCAL = "fe80"


def guessed(known: Known) -> tuple[str, ...]:
    """Those with an RDMA device, else those with an address; empty: none is left."""
    ours, addressed = _ours(known), _addressed(known)
    rdma = [nic for nic in by_nic(known) if nic not in ours]
    if rdma:
        return tuple(nic for nic in rdma if nic in addressed) or tuple(rdma)
    links = {link.name: link for link in known.get(catalogue.LINKS) or ()}
    return tuple(nic for nic in addressed if nic not in ours and carries(links.get(nic)))


def carries(link: Link | None) -> bool:
    """Whether an interface is one that could carry data."""
    return link is not None and not link.loopback and link.kind in VIRTUAL_KINDS


def _addressed(known: Known) -> list[str]:
    """Interfaces with an address that others may send to; those with IPv4 alone count where there are any."""
    found = [each for each in known.get(catalogue.ADDRESSES) or () if not ip_address(each.address).is_link_local]
    first = [each for each in found if each.family == "inet"] or found
    return list(dict.fromkeys(each.nic for each in first))


def _ours(known: Known) -> set[str]:
    """The interface of our connection and those of default routes, with all that they are made of or lie upon."""
    found = {each.nic for each in known.get(catalogue.ADDRESSES) or () if _is_ours(each, known)}
    for fact in (catalogue.ROUTES, catalogue.ROUTES_IPV6):
        for route in known.get(fact) or ():
            if route.dst == "default":
                found |= {route.nic, *route.nics}
    links = known.get(catalogue.LINKS) or ()
    return _closed(found - {""}, lambda names: _below(names, links))


def _is_ours(address: Address, known: Known) -> bool:
    """Our connection may come to an IPv4 address that is written as one of IPv6."""
    identity = known.get(catalogue.IDENTITY)
    if identity is None:
        return False
    try:
        end = ip_address(identity.connection.partition("%")[0])
    except ValueError:  # not over SSH; or sshd itself does not know, and says UNKNOWN
        return False
    return ip_address(address.address) in (end, getattr(end, "ipv4_mapped", None))


def _below(names: Iterable[str], links: Iterable[Link]) -> set[str]:
    """A bond's and a bridge's members, and what a VLAN is on."""
    upper = set(names)
    return {link.name for link in links if link.master in upper} | {link.lower for link in links if link.name in upper}


def _closed(names: set[str], step: Callable[[set[str]], set[str]]) -> set[str]:
    while (more := names | (step(names) - {""})) != names:
        names = more
    return names
