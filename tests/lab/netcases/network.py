"""Cases of the network: TCP, large packets or UDP lost alone, cables cut in one subnet, link events never read."""

from __future__ import annotations

import re
import signal
import statistics
import time
from collections.abc import Mapping, Sequence
from functools import partial

from netcases.bed import CROSSED, DATA, FIRST, HOSTS, MANAGEMENT, OWN, RATE_GBIT, Bed
from netcases.play import Both, Case, Outcome, Pair, Shape, Stage, made, outcome
from netcases.waited import too_long

MOVED_MS = 1000
CABLE_MS = 250
TAKEN_MS = 150
"""Another way within 50 ms, and what messages wait for on a busy machine of two cores."""
AS_STOCK = 1.05
TCP, UDP, BIG = "meta l4proto tcp", "meta l4proto udp", "meta length > 1500"
NEW = "tcp flags & (syn | ack) == syn"
RAIL0 = ("eth0",)
ALL = (*DATA, MANAGEMENT)
EIGHT = ("--dev", "0,1,0,1,0,1,0,1")


def lost(
    stage: Stage,
    *,
    match: str,
    nics: Sequence[str] = RAIL0,
    hosts: Sequence[str] = HOSTS,
    verdict: str = "drop",
    shape: Shape = Shape.RAILS,
    words: tuple[object, ...] = (),
    within_ms: float = MOVED_MS,
    seconds: int = 2,
) -> Outcome:
    """From 0.5 s on until the end."""
    with made(shape) as bed:
        pair = stage.pair(bed, "--seconds", seconds, *words)
        if pair.connected():
            pair.at(0.5, lambda: bed.lose(match, nics, hosts, verdict))
        both = pair.end()
    return outcome(both, both.within(within_ms))


def one_tuple_lost(stage: Stage) -> Outcome:
    """The connection that carries most, as one member of a LAG or one way of ECMP would lose it."""
    with made() as bed:
        pair = stage.pair(bed, "--seconds", 2)
        if pair.connected():
            pair.at(0.5, lambda: bed.lose(f"tcp sport {bed.busiest_port()}", DATA, ("h1",)))
        both = pair.end()
    return outcome(both, both.within(MOVED_MS))


def udp_lost(
    stage: Stage,
    *,
    nics: Sequence[str] = ALL,
    hosts: Sequence[str] = HOSTS,
    verdict: str = "drop",
    hook: str = "input",
    middle_s: float = 0,
    seconds: int = 1,
    side: bool = True,
    shape: Shape = Shape.RAILS,
    size: int = 65536,
    words: tuple[object, ...] = (),
    cut: bool = False,
    new_too: bool = False,
) -> Outcome:
    """From the start, or for `middle_s` in the middle. As stock: iterations not over 5 % slower, none stands still."""
    stock_ms = stage.stock_iteration_ms(shape, size)
    env = {} if side else {"R2CC_SIDE_IFNAME": ""}
    with made(shape) as bed:
        if not side:
            bed.unplug_management()

        def lose() -> None:
            for match in (UDP, NEW) if new_too else (UDP,):
                bed.lose(match, nics, hosts, verdict, hook=hook)

        if not middle_s:
            lose()
        pair = stage.pair(
            bed, "--bytes", size, "--seconds", int(middle_s) + (2 if middle_s or cut else seconds), *words, env=env
        )
        if pair.connected():
            if middle_s:
                pair.at(0.5, lose)
                pair.at(0.5 + middle_s, lambda: bed.find_again(hosts))
            if cut:
                pair.at(1.0, lambda: bed.cut("eth0"))
        both = pair.end()
    problems = both.within(CABLE_MS if cut else TAKEN_MS)
    problems += _slower(both, stock_ms, cut=cut)
    problems += [] if not stage.ours or re.search("(?i)udp", both.log) else ["no line names UDP"]
    return outcome(both, problems, stock_iteration_ms=round(stock_ms, 2))


def _slower(both: Both, stock_ms: float, *, cut: bool) -> list[str]:
    found = both.receiver.iterations_ms
    if not found or cut:
        return []
    median = statistics.median(found)
    what, over_ms = f"iterations of {median:.1f} ms, stock's are {stock_ms:.1f}", median - AS_STOCK * stock_ms
    return [too_long(what, len(found) * over_ms, both.waited_ms)] if over_ms > 0 else []


def cut_in_subnet(
    stage: Stage, *, home: int, nic: str = "eth0", host: str = "h0", shape: Shape = Shape.ONE_SUBNET
) -> Outcome:
    with made(shape) as bed:
        pair = stage.pair(bed, "--seconds", 2, "--dev", home)
        if pair.connected():
            pair.at(0.5, lambda: bed.cut(nic, host))
        both = pair.end()
    return outcome(both, both.within(MOVED_MS))


def own_nic(stage: Stage) -> Outcome:
    """Two connections, one a NIC: in one subnet stock sends both by NIC 0."""
    with made(Shape.ONE_SUBNET) as bed:
        bed.answer_arp(OWN)
        before = bed.sent_bytes("h0")
        both = stage.pair(bed, "--seconds", 2, "--dev", "0,1").end()
        sent = {nic: count - before[nic] for nic, count in bed.sent_bytes("h0").items()}
    share = sent["eth1"] / max(1, sum(sent.values()))
    problems = both.exact() + ([] if 0.4 < share < 0.6 else [f"NIC 1 carried {100 * share:.0f} %"])
    rate = 8 * both.receiver.last["bytes"] / max(1.0, both.receiver.last.get("t_ms", 0.0)) / 1e6
    problems += [] if rate > 1.8 * RATE_GBIT else [f"{rate:.2f} Gbit/s over two NICs of {RATE_GBIT}"]
    return outcome(both, problems, share_of_nic1=round(share, 3), gbit=round(rate, 3))


def answered(stage: Stage, *, by: Mapping[str, str]) -> Outcome:
    """Addresses are reached by another NIC than their own, which stock does not notice."""
    stock_ms = stage.stock_iteration_ms(Shape.ONE_SUBNET, 65536)
    with made(Shape.ONE_SUBNET) as bed:
        bed.answer_arp(by)
        both = stage.pair(bed, "--seconds", 2, "--dev", "0,1").end()
    # Stock sends both connections by NIC 0: each then has half of it.
    return outcome(both, both.within(TAKEN_MS) + _slower(both, 2 * stock_ms, cut=False))


def half_header(stage: Stage) -> Outcome:
    """2 of the 4 bytes of a message's header are sent, the rail is cut, 1.2 s later the sender goes on."""
    pause_ms = 1200
    with made() as bed:
        pair = stage.pair(bed, "--seconds", 3, send=("--half-header-at", 500, "--pause-ms", pause_ms))
        pair.connected()
        if pair.sender.wait_for("half_header"):
            time.sleep(0.1)  # until the peer has them; too short would only lose the two bytes with the rail
            bed.cut("eth0")
        both = pair.end()
    return outcome(both, both.within(pause_ms + MOVED_MS))


def side_missing(stage: Stage) -> Outcome:
    with made() as bed:
        both = stage.pair(bed, "--seconds", 1, env={"R2CC_SIDE_IFNAME": "nosuch0"}).end()
    return outcome(both, both.within(TAKEN_MS))


def link_local(stage: Stage) -> Outcome:
    with made(Shape.LINK_LOCAL) as bed:
        both = stage.pair(bed, "--seconds", 1, env={"NCCL_SOCKET_FAMILY": "AF_INET6"}).end()
    said = re.search("(?i)passed through|unwrapped", both.log)
    return outcome(both, both.exact() + ([] if said or not stage.ours else ["no line says that it is passed through"]))


def overrun(stage: Stage, *, event: str) -> Outcome:
    """The receiver is stopped, link events of another interface fill its netlink socket, then NIC 0's own is lost."""
    with made() as bed:
        pair = stage.pair(bed, "--seconds", 4, give_up_s=8)
        pair.connected()
        if event == "up":
            pair.at(0.3, lambda: bed.cut("eth0", "h1"))
            _wait_for_nic(stage, pair, "down")
        pair.at(0.8, lambda: pair.signal(signal.SIGSTOP, sender=False))
        overrun_netlink(bed, watched=stage.ours)
        _announced(stage, bed, event)
        pair.signal(signal.SIGCONT, sender=False)
        seen = _wait_for_nic(stage, pair, event)
        both = pair.end()
    back = [line for line in both.receiver.of("path") if line["state"] == "active" and line["nic"] == "eth0"]
    problems = both.exact() + ([] if seen else [f"the receiver never saw NIC 0 {event}"])
    if stage.ours and event == "up" and len(back) < 2:
        problems.append("never back on NIC 0")
    return outcome(both, problems)


def _announced(stage: Stage, bed: Bed, event: str) -> None:
    """Cuts or plugs NIC 0 and waits until the kernel told it: after many events it takes up to a second."""
    heard = stage.folder / "links"
    with heard.open("ab") as out:
        monitor = bed.host("h1").spawn(["ip", "-o", "monitor", "link"], stdout=out, stderr=out)
    until = time.monotonic() + 5
    wanted = r" eth0@\S+ <[^>]*LOWER_UP" if event == "up" else r" eth0@\S+ <NO-CARRIER"
    try:
        # The monitor hears nothing until it listens: another interface's events say when it does.
        while not heard.read_text():
            bed.noise(2)
            assert time.monotonic() < until, "ip monitor hears nothing"
        (bed.plug if event == "up" else bed.cut)("eth0", "h1")
        while not re.search(wanted, heard.read_text()):
            assert time.monotonic() < until, f"the kernel never said that NIC 0 is {event}"
            time.sleep(0.02)
    finally:
        monitor.kill()
        monitor.close()


def overrun_netlink(bed: Bed, *, watched: bool) -> None:
    """Link events that nobody reads, until the kernel says that a socket that watches links lost some."""
    for _ in range(20):
        bed.noise(300)
        table = bed.host("h1").read_text("/proc/net/netlink").splitlines()
        drops = table[0].split().index("Drops")
        if not watched or any(int(row.split()[drops]) for row in table[1:]):
            return
    raise AssertionError("no netlink socket was overrun")


def _wait_for_nic(stage: Stage, pair: Pair, state: str) -> bool:
    return not stage.ours or pair.receiver.wait_for("nic", 2.0, of={"nic": "eth0", "state": state, "cause": "netlink"})


_MOVED = "moved within 1 s"
_STOCK = "as stock: iterations within 5 %, no silence over 0.15 s, a line names UDP"
_ANY = (1, 2)


def _tcp(name: str, done: str, *, modes: tuple[int, ...] = (1,), long: bool = False, **how: object) -> Case:
    return Case(name, done, _MOVED, partial(lost, **{"match": TCP, **how}), modes, long)  # type: ignore[arg-type]


def _udp(
    name: str, done: str, *, modes: tuple[int, ...] = (1,), long: bool = False, right: str = _STOCK, **how: object
) -> Case:
    return Case(name, done, right, partial(udp_lost, **how), modes, long)  # type: ignore[arg-type]


def _cut(name: str, done: str, *, long: bool = False, **how: object) -> Case:
    return Case(name, done, _MOVED, partial(cut_in_subnet, **how), (1,), long)  # type: ignore[arg-type]


CASES = [
    _tcp("tcp-only", "rail 0 drops TCP at both ends' input, UDP passes", modes=_ANY),
    _tcp("tcp-to-receiver", "the same towards the receiver alone", hosts=("h1",)),
    _tcp("tcp-to-sender", "the same towards the sender alone", hosts=("h0",)),
    _tcp("tcp-reset", "rail 0 answers TCP with resets", verdict="reject with tcp reset", long=True),
    _tcp("tcp-eight", "tcp-only with eight connections on two NICs", words=EIGHT),
    _tcp("tcp-routed", "tcp-only, routed, MTU 1500", shape=Shape.ROUTED),
    Case("one-flow", "the connection that carries most is lost", _MOVED, one_tuple_lost),
    _tcp("big-packets", "rail 0 drops packets over 1500 bytes (MTU 9000)", match=BIG),
    _tcp("big-one-way", "the same towards the receiver alone", match=BIG, hosts=("h1",), long=True),
    _tcp(
        "tcp-lossy",
        "rail 0 loses 3 of 10 TCP packets, for 8 s",
        match=f"{TCP} numgen random mod 10 < 3",
        seconds=8,
        long=True,
    ),
    _tcp("all-lost", "rail 0 drops everything", match="", long=True),
    _udp("udp-start", "no UDP at all, from the start", modes=_ANY),
    _udp("udp-start-data", "no UDP on the data NICs, from the start", nics=DATA),
    _udp("udp-start-alone", "no UDP and no management network, from the start", side=False),
    _udp("udp-start-reject", "UDP answered with ICMP, from the start", verdict="reject", long=True),
    _udp(
        "udp-start-output",
        "UDP rejected as it leaves, from the start, for 3 s",
        hook="output",
        verdict="reject",
        seconds=3,
    ),
    _udp("udp-start-one-way", "no UDP towards the receiver, from the start", hosts=("h1",), seconds=2, long=True),
    _udp("udp-start-small", "no UDP, messages of 8 KiB", size=8192),
    _udp("udp-start-subnet", "no UDP, one subnet", shape=Shape.ONE_SUBNET, long=True),
    _udp("udp-start-routed", "no UDP, routed", shape=Shape.ROUTED, long=True),
    _udp("udp-rail", "no UDP on rail 0, a connection a NIC", nics=RAIL0, words=("--dev", "1,0")),
    _udp("udp-rail-middle", "the same for 2 s", nics=RAIL0, words=("--dev", "1,0"), middle_s=2, long=True),
    _udp("udp-middle", "no UDP at all for 2 s", middle_s=2),
    _udp("udp-middle-data", "no UDP on the data NICs for 2 s", middle_s=2, nics=DATA),
    _udp("udp-middle-reject", "UDP answered with ICMP for 2 s", middle_s=2, verdict="reject"),
    _udp("udp-middle-one-way", "no UDP towards the sender for 2 s", middle_s=2, hosts=("h0",)),
    _udp(
        "udp-new-middle",
        "neither UDP nor new TCP connections for 4 s, as stock needs neither",
        middle_s=4,
        new_too=True,
    ),
    _udp("udp-new-data", "the same on the data NICs alone", middle_s=4, nics=DATA, new_too=True, long=True),
    _udp("udp-20s", "no UDP at all for 20 s", middle_s=20, long=True),
    _udp("udp-20s-data", "no UDP on the data NICs for 20 s", middle_s=20, nics=DATA, long=True),
    _udp("udp-45s", "no UDP at all for 45 s", middle_s=45, long=True),
    _udp(
        "udp-cut",
        "no UDP from the start; NIC 0 is cut after 1 s",
        cut=True,
        right="moved within 250 ms, a line names UDP",
    ),
    _udp(
        "udp-cut-alone",
        "the same without a management network",
        cut=True,
        side=False,
        right="moved within 250 ms",
        long=True,
    ),
    _cut("subnet-cut-home0", "one subnet, home NIC 0, its carrier is lost", home=0),
    _cut("subnet-cut-home1", "one subnet, home NIC 1, carrier of NIC 0 lost", home=1),
    _cut("subnet-cut-recv", "one subnet, home NIC 1, the receiver's NIC 0 cut", home=1, host="h1"),
    _cut("subnet-cut-own", "one subnet, home NIC 1, its carrier is lost", home=1, nic="eth1", long=True),
    _cut("routed-cut", "routed, home NIC 0, its carrier is lost", home=0, shape=Shape.ROUTED, long=True),
    Case(
        "subnet-own-nic", "one subnet, a connection a NIC", "each NIC carries its own: twice what stock gets", own_nic
    ),
    Case(
        "subnet-crossed",
        "one subnet, the other NIC answers for each address",
        "as stock",
        partial(answered, by=CROSSED),
    ),
    Case("subnet-first", "one subnet, NIC 0 answers for both addresses", "as stock", partial(answered, by=FIRST)),
    Case("side-missing", "R2CC_SIDE_IFNAME names no interface", "as stock", side_missing),
    Case("header", "the stream ends in a message's header, the rail is cut", "replayed elsewhere, exact", half_header),
    Case("link-local", "NICs with IPv6 link-local addresses alone", "passed through: as stock", link_local),
    Case(
        "netlink-down",
        "more link events than a socket holds while the receiver is stopped, then NIC 0 cut",
        "seen",
        partial(overrun, event="down"),
    ),
    Case("netlink-up", "the same while NIC 0 comes back", "seen, used again", partial(overrun, event="up")),
]
