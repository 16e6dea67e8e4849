"""Cases of which NICs can talk to each other, and which of them fail together."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from functools import partial

from netcases.bed import DATA, HOSTS, Bed
from netcases.network import CABLE_MS, MOVED_MS
from netcases.play import Case, Outcome, Stage, made, outcome
from netcases.ports import not_back

CUT_S, SECONDS = 0.5, 2
UPPERS = ("eth0.1", "eth0.2")
OVER_ONE_LINK = {"NCCL_SOCKET_IFNAME": "=eth0.1,eth0.2,eth1"}
HOME = 1
"""The first of them: interfaces are listed by age, and `eth1` is older."""


def uppers(bed: Bed, names: Sequence[str] = UPPERS, hosts: Sequence[str] = HOSTS) -> None:
    """Two interfaces over NIC 0 of each host. They are macvlans, as many kernels of ours have no VLANs: it is the same
    to sysfs."""
    for host in hosts:
        for name in names:
            bed.ip(
                host,
                f"link add link eth0 name {name} type macvlan mode bridge",
                f"addr add 10.{100 + UPPERS.index(name)}.0.{HOSTS.index(host) + 1}/24 dev {name}",
                f"link set {name} up",
            )


def _leave_by_own(bed: Bed, host: str, rail: int, *routes: str) -> None:
    """What leaves with a NIC's address leaves by that NIC, as hosts with several are set."""
    nic, table = DATA[rail], 100 + rail
    address, bits = bed.address(nic, host)
    subnet = ipaddress.ip_network(f"{address}/{bits}", strict=False)
    bed.host(host).run(["sysctl", "-qw", *(f"net.ipv4.conf.{name}.rp_filter=0" for name in ("all", nic))])
    lines = (f"route add {subnet} dev {nic}", *routes)
    bed.ip(host, *(f"{line} table {table}" for line in lines), f"rule add from {address} table {table}")


def isolated(bed: Bed) -> None:
    """All addresses in one subnet, and yet no packet gets from one rail to another."""
    for number, host in enumerate(HOSTS):
        settings = [f"net.ipv4.conf.all.{key}={value}" for key, value in (("arp_ignore", 1), ("arp_announce", 2))]
        bed.host(host).run(["sysctl", "-qw", *settings])
        for rail, nic in enumerate(DATA):
            bed.ip(host, f"addr flush dev {nic}", f"addr add 10.1.0.{10 * (number + 1) + rail}/24 dev {nic}")
            _leave_by_own(bed, host, rail)


def joined(bed: Bed) -> None:
    """A router between the rails."""
    bed.lab.switch.run(["sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0"])
    for rail, nic in enumerate(DATA):
        gateway = f"10.{rail + 1}.0.254"
        bed.lab.switch.run(["ip", "addr", "add", f"{gateway}/24", "dev", f"rail{rail}"])
        for host in HOSTS:
            _leave_by_own(bed, host, rail, f"route add default via {gateway} dev {nic}")
            bed.ip(host, f"route add 10.{2 - rail}.0.0/24 via {gateway} dev {nic} metric 500")


def broken(
    stage: Stage,
    *,
    before: Callable[[Bed], None],
    fault: Callable[[Bed], None],
    within_ms: float = CABLE_MS,
    env: dict[str, str] | None = None,
    home: int = 0,
    never: str = "",
    moves: int = 1,
) -> Outcome:
    """What carries after the fault is NIC 1, after so many failovers; `never` is no NIC of any plan."""
    with made() as bed:
        before(bed)
        pair = stage.pair(bed, "--seconds", SECONDS, "--dev", home, env=env)
        if pair.connected():
            pair.at(CUT_S, lambda: fault(bed))
        both = pair.end()
    problems = both.within(within_ms)
    if stage.ours:
        nics = [line["nic"] for line in both.sender.of("path") if line["state"] == "active"]
        problems += [] if nics[-1:] == ["eth1"] else [f"the plans were on {nics}, not on NIC 1 in the end"]
        problems += [] if len(nics) <= 1 + moves else [f"{len(nics) - 1} failovers"]
        problems += [f"{never} was in a plan"] if never in nics else []
    return outcome(both, problems)


def removed(stage: Stage) -> Outcome:
    """As when a driver is loaded again: the interface is removed, and comes back under another number."""
    with made() as bed:
        uppers(bed)
        pair = stage.pair(bed, "--seconds", 4, "--dev", HOME, env=OVER_ONE_LINK)
        if pair.connected():
            pair.at(CUT_S, lambda: bed.ip("h0", f"link del {UPPERS[0]}"))
            pair.at(CUT_S + 1, lambda: uppers(bed, UPPERS[:1], ("h0",)))
        both = pair.end()
    return outcome(both, both.within(MOVED_MS) + (not_back(both, UPPERS[0]) if stage.ours else []))


def _two_ends(bed: Bed) -> None:
    bed.cut("eth0", "h0")
    bed.cut("eth1", "h1")


CASES = [
    Case(
        "upper-backup",
        "two interfaces over NIC 0, one of them is home and is set down",
        "goes on over NIC 1, never over the other",
        partial(
            broken,
            before=uppers,
            fault=lambda bed: bed.ip("h0", "link set eth0.1 down"),
            env=OVER_ONE_LINK,
            home=HOME,
            never="eth0.2",
        ),
        (1, 2),
    ),
    Case(
        "upper-cut",
        "the same, NIC 0 is cut under both",
        "goes on over NIC 1 within 250 ms, after one failover",
        partial(broken, before=uppers, fault=lambda bed: bed.cut("eth0"), env=OVER_ONE_LINK, home=HOME, never="eth0.2"),
        (1, 2),
    ),
    Case(
        "upper-removed",
        "one of them is removed and made again, as by a driver that is loaded again",
        "moved within 1 s, and back on it",
        removed,
    ),
    Case(
        "isolated-cut",
        "one subnet, but no way from one rail to another; NIC 0 is cut",
        "goes on over rail 1 within 250 ms",
        partial(broken, before=isolated, fault=lambda bed: bed.cut("eth0")),
        (1, 2),
    ),
    Case(
        "router-cut",
        "a router joins the rails; the sender loses NIC 0, the receiver NIC 1",
        "goes on from NIC 1 to NIC 0 within 1 s",
        partial(broken, before=joined, fault=_two_ends, within_ms=MOVED_MS, moves=2),
        (1, 2),
    ),
]
