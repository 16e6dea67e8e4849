"""Data NICs by themselves and beside their peers."""

from __future__ import annotations

from collections.abc import Iterator

from harness.doctor.checks.mark import of_fleet, of_host
from harness.doctor.model import ERROR, NOTE, WARNING, Fleet, Patient, Seen, odd_ones, usual
from harness.facts import catalogue as facts
from harness.facts.iproute import Link, Qdisc

FAST_GBIT = 25.0
ERROR_SHARE = 1e-6
OFFLOADS = ("tcp-segmentation-offload", "generic-receive-offload", "rx-checksumming", "tx-checksumming")
PLAIN_MTU = 1500
ADDRESS_REMEDY = "give it its address on its rail: ip addr add ADDRESS/PREFIX dev NIC"


@of_host("nic-present", facts.LINKS)
def present(patient: Patient) -> Iterator[Seen]:
    if not patient.data and patient.guessed:
        there = ", ".join(name for name, link in patient.links.items() if not link.loopback)
        text = (
            f"no NIC can be guessed to carry data: each has the default route, our connection or no address ({there})"
        )
        yield Seen(WARNING, patient.name, "", text, "name those that do in the inventory (nics: {data: ...})")
    elif not patient.data:
        yield Seen(ERROR, patient.name, "", "no NIC carries data here")
    for nic in patient.data:
        if nic not in patient.links:
            there = ", ".join(name for name in patient.links if name != "lo")
            yield Seen(ERROR, patient.name, nic, f"there is no such NIC (there are: {there})")


@of_host("nic-state", facts.LINKS, facts.ADDRESSES)
def state(patient: Patient) -> Iterator[Seen]:
    for nic, link in _data(patient):
        if not link.up:
            yield Seen(ERROR, patient.name, nic, "it is down", "ip link set NIC up")
        elif not link.carrier:
            yield Seen(
                ERROR, patient.name, nic, "no signal: its link is down", "see to the cable and the switch's port"
            )
        elif not patient.address(nic):
            yield Seen(ERROR, patient.name, nic, _unaddressed(patient, nic), ADDRESS_REMEDY)


def _unaddressed(patient: Patient, nic: str) -> str:
    """R2CC finds its peers by addresses: a NIC with none that is global is NCCL's own, as it was."""
    if address := patient.global_address(nic):
        return f"it has IPv6 addresses alone ({address}): IPv6 alone is not supported by what r2cc runs on hosts"
    text = "it has no IPv4 address, nor a global one of IPv6"
    return f"{text}: R2CC passes it through unwrapped, and nothing fails over from it"


def _data(patient: Patient) -> list[tuple[str, Link]]:
    return [(nic, patient.links[nic]) for nic in patient.data if nic in patient.links]


def speed_gbit(patient: Patient, nic: str) -> float | None:
    """None: not known, as of virtual NICs and of links that are down."""
    told, shown = (patient.known.get(facts.ETHTOOL) or {}).get(nic), (patient.known.get(facts.NET) or {}).get(nic)
    if told is not None and told.settings is not None and told.settings.speed_gbit is not None:
        return told.settings.speed_gbit
    return shown.speed_gbit if shown is not None else None


@of_fleet("nic-speed", facts.NET)
def speed(fleet: Fleet) -> Iterator[Seen]:
    told = {(one.name, nic): found for one in fleet.patients for nic in one.data if (found := speed_gbit(one, nic))}
    fastest = max(told.values(), default=0.0)
    for one in fleet.patients:
        for nic in one.data:
            found = told.get((one.name, nic))
            details = (one.known.get(facts.ETHTOOL) or {}).get(nic)
            most = details.settings.most_gbit if details and details.settings else None
            if found and most and found < most:
                yield Seen(WARNING, one.name, nic, f"{found:g} Gbit/s, though it can do {most:g}")
            elif found and found < fastest:
                yield Seen(WARNING, one.name, nic, f"{found:g} Gbit/s, others have {fastest:g}")
            shown = (one.known.get(facts.NET) or {}).get(nic)
            if shown and shown.duplex == "half":
                yield Seen(WARNING, one.name, nic, "half duplex")


@of_fleet("nic-shaping", facts.QDISCS)
def shaping(fleet: Fleet) -> Iterator[Seen]:
    """Whoever left a rate limit or packet loss behind; a lab has the same rate everywhere, and that is a note."""
    found = {(one.name, nic): limit for one in fleet.patients for nic, limit in _shapers(one)}
    every = {(one.name, nic): None for one in fleet.patients for nic in one.data}
    rates = {**every, **{key: each.rate_gbit for key, each in found.items()}}
    odd = odd_ones(rates)
    for (name, nic), each in found.items():
        if each.loss or each.delay_ms:
            text = f"{each.kind} there: loses {each.loss:.2%}, delays {each.delay_ms:g} ms"
            yield Seen(WARNING, name, nic, text, "tc qdisc del dev NIC root")
        elif each.rate_gbit is not None:
            severity = WARNING if (name, nic) in odd else NOTE
            yield Seen(severity, name, nic, f"{each.kind} limits it to {each.rate_gbit:g} Gbit/s")
    for name, nic in odd:
        if (name, nic) not in found:
            yield Seen(WARNING, name, nic, f"has no rate limit, most are limited to {usual(rates.values()):g} Gbit/s")


def _shapers(patient: Patient) -> list[tuple[str, Qdisc]]:
    qdiscs = patient.known.get(facts.QDISCS) or ()
    return [
        (each.nic, each)
        for each in qdiscs
        if each.nic in patient.data and (each.rate_gbit is not None or each.loss or each.delay_ms)
    ]


@of_fleet("nic-mtu", facts.LINKS)
def mtu(fleet: Fleet) -> Iterator[Seen]:
    """By rail: NICs that talk to each other must agree."""
    for members in fleet.rails().values():
        told = {(one.name, nic): one.links[nic].mtu for one, nic in members if nic in one.links}
        if not told:
            continue
        most = usual(told.values())
        for (name, nic), found in odd_ones(told).items():
            text = f"MTU {found}, its rail's other NICs have {most}"
            yield Seen(ERROR, name, nic, text, f"ip link set NIC mtu {most}")
        for one, nic in members:
            if told.get((one.name, nic)) == PLAIN_MTU == most and (speed_gbit(one, nic) or 0) >= FAST_GBIT:
                yield Seen(NOTE, one.name, nic, "MTU 1500 on a fast NIC", "ip link set NIC mtu 9000, on the switch too")


@of_host("nic-errors", facts.FIRST, facts.LAST)
def errors(patient: Patient) -> Iterator[Seen]:
    first, last = patient.known.get(facts.FIRST) or {}, patient.known.get(facts.LAST) or {}
    for nic in patient.data:
        before, after = first.get(nic), last.get(nic)
        if before is None or after is None:
            continue
        if after.errors > before.errors:
            yield Seen(WARNING, patient.name, nic, "counts transmission errors while we look")
        elif after.errors > max(10, after.packets * ERROR_SHARE):
            yield Seen(NOTE, patient.name, nic, f"{after.errors} errors in {after.packets} packets since it was made")
    yield from _rdma_errors(patient)


def _rdma_errors(patient: Patient) -> Iterator[Seen]:
    first, last = patient.known.get(facts.FIRST_RDMA) or {}, patient.known.get(facts.LAST_RDMA) or {}
    for port, counters in last.items():
        rising = [name for name, count in counters.items() if count > first.get(port, {}).get(name, count)]
        if rising:
            yield Seen(WARNING, patient.name, port, f"counters rise while we look: {', '.join(rising)}")
        downs = counters.get("link_downed", 0)
        if downs:
            yield Seen(NOTE, patient.name, port, f"its link went down {downs} times since it was started")


@of_host("nic-module", facts.ETHTOOL)
def module(patient: Patient) -> Iterator[Seen]:
    for nic, told in (patient.known.get(facts.ETHTOOL) or {}).items():
        if nic in patient.data and told.module is not None and told.module.alarms:
            what = " ".join(part for part in (told.module.vendor, told.module.part) if part)
            yield Seen(WARNING, patient.name, nic, f"optical module ({what}): {', '.join(told.module.alarms)}")


@of_host("nic-offload", facts.ETHTOOL)
def offloads(patient: Patient) -> Iterator[Seen]:
    for nic, told in (patient.known.get(facts.ETHTOOL) or {}).items():
        off = [name for name in OFFLOADS if told.has(name) is False]
        if nic in patient.data and off and (speed_gbit(patient, nic) or 0) >= FAST_GBIT:
            yield Seen(NOTE, patient.name, nic, f"off: {', '.join(off)}")
