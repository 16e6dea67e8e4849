"""Cases of the management network, which a healthy job does not need: lost alone, and a NIC lost in that state."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from netcases.bed import DATA, HOSTS, MANAGEMENT, Bed
from netcases.network import CABLE_MS, MOVED_MS, RAIL0, TAKEN_MS
from netcases.play import Case, Outcome, Stage, made, outcome

LOST_S, FAULT_S, SECONDS = 0.5, 1.2, 2


def _on_both(bed: Bed, *argv: str) -> None:
    for name in HOSTS:
        bed.host(name).run(list(argv))


def down(bed: Bed) -> None:
    _on_both(bed, "ip", "link", "set", MANAGEMENT, "down")


def cable(bed: Bed) -> None:
    bed.unplug_management()


def removed(bed: Bed) -> None:
    _on_both(bed, "ip", "link", "del", MANAGEMENT)


def routes(bed: Bed) -> None:
    """Neither an address nor a route is left there, as after a failed renewal."""
    _on_both(bed, "ip", "route", "flush", "dev", MANAGEMENT)
    _on_both(bed, "ip", "addr", "flush", "dev", MANAGEMENT)


def names(bed: Bed) -> None:
    """No name server answers, on any way."""
    bed.lose("meta l4proto { tcp, udp } th dport 53", (MANAGEMENT, *DATA), verdict="reject", hook="output")


def silent(bed: Bed) -> None:
    bed.lose("", (MANAGEMENT,))


def resets(bed: Bed) -> None:
    """Whoever was there after the start is gone: his host answers with resets, and that no such port is open."""
    bed.lose("meta l4proto tcp", (MANAGEMENT,), verdict="reject with tcp reset")
    bed.lose("meta l4proto udp", (MANAGEMENT,), verdict="reject")


def lost(stage: Stage, *, how: Callable[[Bed], None], fault: str = "") -> Outcome:
    """Loses it while messages move; then NIC 0 as well: by its `cable`, or in `silence`."""
    with made() as bed:
        pair = stage.pair(bed, "--seconds", SECONDS)
        if pair.connected():
            pair.at(LOST_S, lambda: how(bed))
            if fault:
                pair.at(FAULT_S, lambda: bed.cut("eth0") if fault == "cable" else bed.lose("", RAIL0))
        both = pair.end()
    problems = both.within({"": TAKEN_MS, "cable": CABLE_MS, "silence": MOVED_MS}[fault])
    moves = [line for line in both.sender.of("path") if line["state"] == "active" and line["epoch"] > 1]
    if moves and not fault:
        problems.append("a failover")
    return outcome(both, problems)


_HEALTHY = "nothing happens: no failover, no silence over 0.15 s"


def _case(name: str, done: str, how: Callable[[Bed], None], *, fault: str = "", long: bool = False) -> Case:
    limit = {"": _HEALTHY, "cable": "moved within 250 ms", "silence": "moved within 1 s"}[fault]
    return Case(name, done, limit, partial(lost, how=how, fault=fault), (1, 2) if fault == "cable" else (1,), long)


CASES = [
    _case("mgmt-down", "the management interface is set down on both hosts", down),
    _case("mgmt-cable", "it loses its cable", cable, long=True),
    _case("mgmt-removed", "it is removed on both hosts", removed, long=True),
    _case("mgmt-routes", "its addresses and routes are removed", routes),
    _case("mgmt-names", "no name server answers any more", names, long=True),
    _case("mgmt-silent", "it drops everything", silent, long=True),
    _case("mgmt-resets", "it answers with resets: whoever helped to start is gone", resets),
    _case("mgmt-down-cut", "it is set down, then NIC 0 is cut", down, fault="cable"),
    _case(
        "mgmt-routes-cut", "its addresses and routes are removed, then NIC 0 is cut", routes, fault="cable", long=True
    ),
    _case("mgmt-resets-cut", "it answers with resets, then NIC 0 is cut", resets, fault="cable", long=True),
    _case("mgmt-down-silence", "it is set down, then rail 0 drops everything", down, fault="silence"),
]
