"""Cases of a port that comes back different: another address, subnet, MTU or interface. It is used again."""

from __future__ import annotations

import ipaddress
import statistics
from collections.abc import Callable
from functools import partial

from netcases.bed import DATA, HOSTS, Bed
from netcases.network import MOVED_MS
from netcases.play import Both, Case, Outcome, Stage, made, outcome
from netcases.waited import too_long

CHANGE_S, BACK_S, SECONDS = 0.5, 1.5, 3
CARRIES = 0.8
"""Of what it was before, as the machine that plays cases is never quiet; benchmarks measure it."""
TWICE = 1.6
ENDS = 10
"""Iterations at the start and at the end that are compared."""
SIX = {"NCCL_SOCKET_FAMILY": "AF_INET6"}

Change = Callable[[Bed], None]


def _other(address: str, by: int = 100) -> str:
    return str(ipaddress.ip_address(address) + by)


def another(bed: Bed, *, host: str = "h0", nic: str = "eth0") -> None:
    """The next lease is another address of the same subnet."""
    address, bits = bed.address(nic, host)
    bed.ip(host, f"addr del {address}/{bits} dev {nic}", f"addr add {_other(address)}/{bits} dev {nic}")


def another_first(bed: Bed) -> None:
    """The new one is there before the old goes."""
    address, bits = bed.address("eth0")
    bed.ip("h0", f"addr add {_other(address)}/32 dev eth0", f"addr del {address}/{bits} dev eth0")
    bed.ip("h0", f"addr del {_other(address)}/32 dev eth0", f"addr add {_other(address)}/{bits} dev eth0")


def on_both(bed: Bed) -> None:
    for host in HOSTS:
        another(bed, host=host)


def moved(bed: Bed) -> None:
    """The whole rail is another subnet from now on, one host after the other."""
    for number, host in enumerate(HOSTS):
        address, bits = bed.address("eth0", host)
        bed.ip(host, f"addr del {address}/{bits} dev eth0", f"addr add 10.99.0.{number + 1}/24 dev eth0")


def wider(bed: Bed) -> None:
    """The same address, in a larger subnet."""
    for host in HOSTS:
        address, bits = bed.address("eth0", host)
        bed.ip(host, f"addr del {address}/{bits} dev eth0", f"addr add {address}/{bits - 2} dev eth0")


def six_only(bed: Bed) -> None:
    """IPv6 alone, one address a NIC."""
    for number, host in enumerate(HOSTS):
        names = ("all", *DATA)
        settings = [f"net.ipv6.conf.{name}.{key}=0" for name in names for key in ("disable_ipv6", "accept_dad")]
        bed.host(host).run(["sysctl", "-qw", *settings])
        for rail, nic in enumerate(DATA):
            bed.ip(host, f"addr flush dev {nic}", f"addr add fd00:{rail + 1}::{number + 1}/64 dev {nic} nodad")


def renumbered(bed: Bed) -> None:
    """Another prefix on both hosts. The kernel looks for doubles of the new address first, as it does by default."""
    for number, host in enumerate(HOSTS):
        bed.host(host).run(["sysctl", "-qw", "net.ipv6.conf.eth0.accept_dad=1"])
        bed.ip(host, f"addr add fd00:99::{number + 1}/64 dev eth0", f"addr del fd00:1::{number + 1}/64 dev eth0")


def _mtu(bed: Bed, size: int, hosts: tuple[str, ...] = HOSTS) -> None:
    _everywhere(bed, f"link set eth0 mtu {size}", hosts)


def changed(
    stage: Stage,
    *,
    change: Change,
    back: Change | None = None,
    before: Change | None = None,
    env: dict[str, str] | None = None,
    seconds: int = SECONDS,
) -> Outcome:
    """The home NIC's port is another after `change`, and the job is back on it in the end, at its rate."""
    with made() as bed:
        if before:
            before(bed)
        pair = stage.pair(bed, "--seconds", seconds, env=env)
        if pair.connected():
            pair.at(CHANGE_S, lambda: change(bed))
            if back:
                pair.at(BACK_S, lambda: back(bed))
        both = pair.end()
    return outcome(both, both.within(MOVED_MS) + (not_back(both) if stage.ours else []), rate=round(rate(both), 3))


def not_back(both: Both, nic: str = "eth0") -> list[str]:
    """What is wrong where the last plan is not home alone, or slower than before."""
    lines = [line for line in both.sender.of("path") if line["state"] == "active"]
    found = []
    if not lines or lines[-1]["nic"] != nic or lines[-1].get("shares"):
        ends_on = lines[-1].get("shares") or lines[-1]["nic"] if lines else "nothing"
        found.append(f"ends on {ends_on}, not on {nic}")
    if rate(both) < CARRIES:
        found.append(_too_slow(both, f"{100 * rate(both):.0f} % of the rate of before", CARRIES))
    return found


def _too_slow(both: Both, what: str, wanted: float) -> str:
    """The last ten iterations took longer than with the wanted rate."""
    times = both.receiver.iterations_ms
    if len(times) <= 2 * ENDS:
        return what
    over_ms = statistics.median(times[-ENDS:]) - statistics.median(times[:ENDS]) / wanted
    return too_long(what, ENDS * over_ms, both.waited_ms)


def rate(both: Both) -> float:
    """That of the last ten iterations beside the first ten, by their medians."""
    times = both.receiver.iterations_ms
    few = len(times) <= 2 * ENDS
    return 0.0 if few else statistics.median(times[:ENDS]) / statistics.median(times[-ENDS:])


def late(stage: Stage, *, before: Change, joins: Change) -> Outcome:
    """NIC 1 is of no use at the start and joins later: two connections, one of them at home there, go twice as fast."""
    env = {"R2CC_SOCKET_DOWN_IFS": "1", **(SIX if before is six_late else {})}
    with made() as bed:
        before(bed)
        pair = stage.pair(bed, "--seconds", SECONDS + 1, "--dev", "0,1", env=env)
        if pair.connected():
            pair.at(BACK_S, lambda: joins(bed))
        both = pair.end()
    faster = [] if rate(both) > TWICE else [_too_slow(both, f"{rate(both):.2f} times the rate of before", TWICE)]
    return outcome(both, both.within(MOVED_MS) + (faster if stage.ours else []), rate=round(rate(both), 3))


def six_late(bed: Bed) -> None:
    """IPv6, and the receiver's NIC 1 has no address yet."""
    six_only(bed)
    bed.ip("h1", "addr flush dev eth1")


def no_address(bed: Bed, hosts: tuple[str, ...] = HOSTS) -> None:
    _everywhere(bed, "addr flush dev eth1", hosts)


def an_address(bed: Bed, hosts: tuple[str, ...] = HOSTS) -> None:
    for host in hosts:
        bed.ip(host, f"addr add 10.2.0.{HOSTS.index(host) + 1}/24 dev eth1")


def _everywhere(bed: Bed, line: str, hosts: tuple[str, ...] = HOSTS) -> None:
    for host in hosts:
        bed.ip(host, line)


_BACK = "moved within 1 s, and back on NIC 0"


def _case(name: str, done: str, change: Change, *, long: bool = False, **how: object) -> Case:
    return Case(name, done, _BACK, partial(changed, change=change, **how), (1,), long)  # type: ignore[arg-type]


def _late(name: str, done: str, before: Change, joins: Change) -> Case:
    right = "the rate doubles when it joins"
    return Case(name, f"at the start {done}", right, partial(late, before=before, joins=joins), (1, 2))


CASES = [
    _case("address-other", "the sender's NIC 0 gets another address of its subnet", another),
    _case("address-recv", "the receiver's NIC 0 does", partial(another, host="h1")),
    _case("address-overlap", "the new address comes before the old one goes", another_first, long=True),
    _case("address-both", "NIC 0 of both hosts gets another address", on_both),
    _case("address-moved", "NIC 0 of both hosts moves to another subnet", moved),
    _case("address-wider", "NIC 0 of both hosts keeps its address, in a larger subnet", wider),
    _case("address-six", "IPv6: NIC 0 of both hosts is renumbered", renumbered, before=six_only, env=SIX, seconds=8),
    _case(
        "address-away",
        "the sender's NIC 0 has no address for a second",
        lambda bed: bed.ip("h0", "addr flush dev eth0"),
        back=lambda bed: bed.ip("h0", "addr add 10.1.0.77/24 dev eth0"),
        long=True,
    ),
    _case(
        "mtu-one",
        "the sender's NIC 0 has an MTU of 1500 instead of 9000 for a second",
        lambda bed: _mtu(bed, 1500, ("h0",)),
        back=lambda bed: _mtu(bed, 9000, ("h0",)),
    ),
    _case(
        "mtu-both",
        "NIC 0 of both hosts has one for a second",
        lambda bed: _mtu(bed, 1500),
        back=lambda bed: _mtu(bed, 9000),
    ),
    _late("late-link", "the sender's NIC 1 has no cable", lambda bed: bed.cut("eth1"), lambda bed: bed.plug("eth1")),
    _late(
        "late-down",
        "NIC 1 of both hosts is set down",
        lambda bed: _everywhere(bed, "link set eth1 down"),
        lambda bed: _everywhere(bed, "link set eth1 up"),
    ),
    _late(
        "late-address",
        "the sender's NIC 1 has no address",
        partial(no_address, hosts=("h0",)),
        partial(an_address, hosts=("h0",)),
    ),
    _late(
        "late-recv", "the receiver's has none", partial(no_address, hosts=("h1",)), partial(an_address, hosts=("h1",))
    ),
    _late("late-both", "both have none", no_address, an_address),
    _late(
        "late-six",
        "IPv6: the receiver's has none",
        six_late,
        lambda bed: bed.ip("h1", "addr add fd00:2::2/64 dev eth1"),
    ),
]
