"""Examines hosts: facts of all at once in one round trip each, then one more in which they try their ways to peers."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_interface

from harness.doctor.guess import carries, guessed
from harness.doctor.model import Datagram, Fleet, Path, Patient
from harness.errors import R2ccError, UsageError
from harness.facts import Known, NotAvailable, catalogue, nvidia
from harness.facts.collect import Collected, collect
from harness.facts.datagrams import Voice, datagrams
from harness.facts.iproute import Address
from harness.facts.ways import HEADERS_BYTES, Tried, Try
from harness.hosts import Host
from harness.hosts.parallel import Outcome, on_all
from harness.sites.cluster import ClusterSite
from harness.sites.inventory_file import DEFAULT_PREFIX
from harness.sites.local import LocalSite
from harness.sites.site import Site
from harness.sites.surveyed import DATA

ALL_PAIRS = 8
"""Up to so many hosts every one tries all others; beyond, the next two."""
MOST_TRIES = 48
PORTS = range(40_000, 50_000)
"""Where kernels choose ports by default, as R2CC's side channel has them."""

Told = Callable[[Outcome[Collected]], None]


@dataclass(frozen=True)
class Ward:
    """Hosts that can be examined. A host that `data` does not name has its data NICs guessed."""

    bed: str
    hosts: Mapping[str, Host]
    data: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)
    gpus: Mapping[str, int] = field(default_factory=dict)
    """How many the inventory says that a host has."""


@contextmanager
def open_ward(site: Site) -> Iterator[Ward]:
    """The hosts of a site, which raises what `Site.open` does. Hosts over SSH need no build there."""
    if isinstance(site, ClusterSite):
        found = site.members
        data = {host.name: host.nics[DATA] for host in found if host.nics.get(DATA)}
        gpus = {host.name: host.gpus for host in found if host.gpus is not None}
        yield Ward(site.bed, site.hosts(), data, {host.name: host.prefix for host in found}, gpus)
        return
    with site.open() as opened:
        by_host = {name: tuple(nic.name for nic in opened.nics if nic.host == name) for name in opened.hosts}
        yield Ward(site.bed, opened.hosts, {} if isinstance(site, LocalSite) else by_host)


def only(ward: Ward, names: Sequence[str]) -> Ward:
    """Some of its hosts. UsageError for one that is not there."""
    wrong = [name for name in names if name not in ward.hosts]
    if wrong:
        raise UsageError(f"no host '{wrong[0]}' in this inventory", f"one of: {', '.join(ward.hosts)}")
    return replace(ward, hosts={name: ward.hosts[name] for name in names} if names else ward.hosts)


@dataclass(frozen=True)
class Examined:
    """All hosts that answered, and what kept the others from it."""

    fleet: Fleet
    failed: Mapping[str, R2ccError]


def examined(
    ward: Ward, *, pid: int | None, tries_paths: bool, sends: bool = False, told: Told = lambda _outcome: None
) -> Examined:
    """Asks all hosts at once; `told` hears of each as it has answered or failed."""
    outcomes = on_all({name: partial(_ask, host, ward, pid) for name, host in ward.hosts.items()}, told)
    failed = {name: outcome.error for name, outcome in outcomes.items() if outcome.error is not None}
    patients = tuple(
        Patient(
            name,
            outcome.value.known,
            data_nics(ward, name, outcome.value.known),
            outcome.value.clock,
            pid=pid,
            guessed=name not in ward.data,
            gpus=ward.gpus.get(name),
        )
        for name, outcome in outcomes.items()
        if outcome.value is not None
    )
    fleet = Fleet(patients, ward.bed)
    if tries_paths:
        fleet, lost = _with_paths(ward, fleet)
        failed |= lost
    if sends:
        fleet, lost = _with_datagrams(ward, fleet)
        failed |= lost
    return Examined(fleet, failed)


def _ask(host: Host, ward: Ward, pid: int | None) -> Collected:
    found = collect(host, catalogue.asked(ward.prefixes.get(host.name, DEFAULT_PREFIX), pid))
    if ward.bed == LocalSite.bed and isinstance(found.known.values[catalogue.GPUS.name], NotAvailable):
        gpus = nvidia.local_gpus()
        if not isinstance(gpus, NotAvailable):
            return replace(found, known=Known({**found.known.values, catalogue.GPUS.name: gpus}))
    return found


def data_nics(ward: Ward, name: str, known: Known) -> tuple[str, ...]:
    """As the inventory says; else as guessed."""
    return ward.data[name] if name in ward.data else guessed(known)


def _with_paths(ward: Ward, fleet: Fleet) -> tuple[Fleet, dict[str, R2ccError]]:
    """A host that is lost meanwhile keeps its facts, without paths, and is told as one that could not be examined."""
    plans = planned(fleet)
    work = {
        each.name: partial(_try, ward.hosts[each.name], each, plans[each.name])
        for each in fleet.patients
        if plans[each.name]
    }
    outcomes = on_all(work)
    found = {name: outcome.value for name, outcome in outcomes.items() if outcome.value is not None}
    lost = {name: outcome.error for name, outcome in outcomes.items() if outcome.error is not None}
    fleet = replace(fleet, patients=tuple(replace(each, paths=found.get(each.name, ())) for each in fleet.patients))
    return fleet, lost


def planned(fleet: Fleet) -> dict[str, tuple[Path, ...]]:
    """What each host is to try: its NICs that work, to those of its rail that do."""
    found: dict[str, list[Path]] = {patient.name: [] for patient in fleet.patients}
    for members in fleet.rails().values():
        working = [(patient, nic) for patient, nic in members if patient.works(nic)]
        for index, (patient, nic) in enumerate(working):
            most = len(working) if len(working) <= ALL_PAIRS else 3
            for step in range(1, most):
                peer, peer_nic = working[(index + step) % len(working)]
                size = patient.links[nic].mtu
                found[patient.name].append(Path(nic, peer.name, peer_nic, peer.address(peer_nic), size=size))
    return {name: tuple(paths[:MOST_TRIES]) for name, paths in found.items()}


def sendings(fleet: Fleet) -> dict[str, tuple[Datagram, ...]]:
    """What each host is to send: from its data NICs as it tries its ways, and over the management network."""
    addressed = {patient.name: patient for patient in fleet.patients}
    found = {}
    for name, paths in planned(fleet).items():
        patient = addressed[name]
        mine = [Datagram(p.nic, p.peer, p.peer_nic, patient.address(p.nic), p.peer_address) for p in paths]
        peers = dict.fromkeys(path.peer for path in paths)
        found[name] = (*mine, *(each for peer in peers if (each := _management(patient, addressed[peer]))))
    return found


def _management(patient: Patient, peer: Patient) -> Datagram | None:
    """Between the first NICs of both that carry no data and are in one subnet."""
    for mine in _others(patient):
        for theirs in _others(peer):
            if theirs.address != mine.address and ip_address(theirs.address) in _network(mine):
                return Datagram(mine.nic, peer.name, theirs.nic, mine.address, theirs.address)
    return None


def _others(patient: Patient) -> list[Address]:
    found = [each for each in patient.known.get(catalogue.ADDRESSES) or () if each.family == "inet"]
    return [each for each in found if each.nic not in patient.data and carries(patient.links.get(each.nic))]


def _network(address: Address) -> IPv4Network | IPv6Network:
    return ip_interface(f"{address.address}/{address.prefix}").network


def _with_datagrams(ward: Ward, fleet: Fleet) -> tuple[Fleet, dict[str, R2ccError]]:
    """All hosts send and listen at the same time; a datagram was lost only where both its ends did."""
    plans = sendings(fleet)
    token, port = f"r2cc-{secrets.token_hex(8)}", PORTS.start + secrets.randbelow(len(PORTS))
    speaking = {name: mine for name in plans if (mine := voices(name, plans))}
    outcomes = on_all({name: partial(_listen, ward.hosts[name], mine, token, port) for name, mine in speaking.items()})
    heard = {name: out.value for name, out in outcomes.items() if out.value is not None}
    lost = {name: out.error for name, out in outcomes.items() if out.error is not None}

    def told(name: str, each: Datagram) -> Datagram:
        both = name in heard and each.peer in heard
        return replace(each, came=(each.target, each.source) in heard[each.peer] if both else None)

    patients = tuple(
        replace(one, datagrams=tuple(told(one.name, each) for each in plans[one.name])) for one in fleet.patients
    )
    return replace(fleet, patients=patients), lost


def voices(name: str, plans: Mapping[str, Sequence[Datagram]]) -> tuple[Voice, ...]:
    """Where a host sends from and listens at."""
    found: dict[tuple[str, str], list[str]] = {(each.nic, each.source): [] for each in plans[name]}
    for each in plans[name]:
        found[each.nic, each.source].append(each.target)
    for each in (each for plan in plans.values() for each in plan if each.peer == name):
        found.setdefault((each.peer_nic, each.target), [])
    return tuple(Voice(nic, address, tuple(targets)) for (nic, address), targets in found.items())


def _listen(host: Host, mine: Sequence[Voice], token: str, port: int) -> frozenset[tuple[str, str]] | None:
    fact = datagrams(mine, token, port)
    return collect(host, [fact]).known.get(fact)


def tries(patient: Patient, paths: Sequence[Path]) -> list[Try]:
    return [Try(p.nic, patient.address(p.nic), p.peer_address, max(p.size - HEADERS_BYTES, 0)) for p in paths]


def _try(host: Host, patient: Patient, paths: Sequence[Path]) -> tuple[Path, ...]:
    fact = catalogue.paths(tries(patient, paths))
    results = collect(host, [fact]).known.get(fact) or ()
    found: dict[tuple[str, str], Tried] = {(each.nic, each.target): each for each in results}
    return tuple(
        replace(path, route=each.route, small=each.small, whole=each.whole)
        for path in paths
        if (each := found.get((path.nic, path.peer_address))) is not None
    )
