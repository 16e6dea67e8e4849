"""Faults inside hosts, as where nobody lets us into the switch: each for real, seen by traffic, undone exactly.

Lab hosts stand for machines: their NICs are said to have no port of a switch that we may touch.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos.experiment.file import loads
from chaos.experiment.planned import planned_faults
from chaos.faults.catalogue import example
from chaos.faults.fault import Fault
from chaos.faults.needs import parse, question
from chaos.faults.registry import kinds
from chaos.faults.support import lacking
from chaos.run.actors import Actors
from harness.hosts import Host, Process
from harness.lab.lab import Lab
from harness.lab.topology import Topology

pytestmark = [pytest.mark.timed, pytest.mark.lab, pytest.mark.timeout(120)]

OTHERS, SIDE = 7007, 40007
"""A well-known port and one of those that the kernel chooses, as the side channel has them."""
ECHO = f"""
import selectors, socket
found = selectors.DefaultSelector()
for port in ({OTHERS}, {SIDE}):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("0.0.0.0", port))
    found.register(s, selectors.EVENT_READ)
print("ready", flush=True)
while True:
    for key, _ in found.select():
        key.fileobj.sendto(*key.fileobj.recvfrom(2000))
"""
ASK = """
import socket, sys
for line in sys.stdin:
    address, port, seconds = line.split()
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(float(seconds)); answer = "silence"
    for _ in range(3):
        try:
            s.sendto(b"hello", (address, int(port))); s.recv(100); answer = "echo"; break
        except OSError:
            pass
    print(answer, flush=True)
"""
PATIENT_S, SILENCE_S = 20.0, 0.1
"""What each of three datagrams waits for its answer: one that should come, if late, and one that should not."""
PREPARE = """
sysctl -qw net.ipv6.conf.eth1.accept_dad=0
sysctl -qw net.ipv6.conf.eth1.disable_ipv6=0
ip addr add 10.2.0.77/24 dev eth1
ip -6 addr add fd02::2/64 dev eth1
ip -6 addr add fd02::3/128 dev eth1
until [ -z "$(ip -6 addr show dev eth1 tentative)" ]; do sleep 0.01; done
ip route add 10.77.0.0/16 via 10.2.0.1 dev eth1 metric 7 mtu 1400
ip route add 10.88.0.0/16 nexthop via 10.2.0.1 dev eth1 weight 2 nexthop via 10.1.0.1 dev eth0
ip route add default via 10.2.0.1 dev eth1 src 10.2.0.2 table 100
ip -6 route add fd77::/48 via fd02::9 dev eth1 src fd02::2 metric 50
ip rule add from 10.2.0.2 table 100
ip rule add oif eth1 table 100
ip neigh add 10.2.0.200 lladdr 02:00:00:00:00:01 dev eth1 nud permanent
nft add table inet theirs
nft add chain inet theirs input '{ type filter hook input priority 0 ; }'
nft add rule inet theirs input udp dport 9 counter
"""
"""What a real host has that must still be there afterwards."""


class Net:
    """Two hosts of the lab, and someone on h0 who asks h1."""

    def __init__(self, lab: Lab, stack: ExitStack) -> None:
        self.lab = lab
        self.nics = [replace(nic, switch_port="") for nic in lab.nics]
        self.actors = Actors(None, lab.hosts, lambda rank: pytest.fail("no rank runs"))
        self.echo = self._spawned(stack, lab.hosts["h1"], ECHO)
        assert self.echo.stdout is not None
        assert self.echo.stdout.readline() == b"ready\n"
        theirs, self.asking = os.pipe2(os.O_CLOEXEC)
        self.asker = self._spawned(stack, lab.hosts["h0"], ASK, theirs)
        os.close(theirs)
        stack.callback(os.close, self.asking)

    def _spawned(self, stack: ExitStack, host: Host, program: str, stdin: int | None = None) -> Process:
        process = host.spawn([sys.executable, "-ISc", program], stdin=stdin)
        stack.callback(process.close)
        return process

    def hears(self, port: int = OTHERS, *, wanted: bool = True) -> bool:
        """Whether h1 answers h0 over eth1. An answer that is wanted may be late."""
        os.write(self.asking, f"10.2.0.2 {port} {PATIENT_S if wanted else SILENCE_S}\n".encode())
        assert self.asker.stdout is not None
        return self.asker.stdout.readline() == b"echo\n"

    def fault(self, kind: str, words: str) -> Fault:
        net = "ib" if kinds()[kind].rdma_only else "socket"
        text = (
            f"name: one\ntopology: {{hosts: 2, nics: 2}}\nworkload: {{net: {net}, iterations: 1}}\nfaults:\n"
            f"  - {{id: f, kind: {kind}, at: {{time_s: 0.0}}, {words}}}\narms: {{migrate: {{expect: any}}}}\n"
        )
        (planned,) = planned_faults(loads(text, Path("one.yaml")), self.nics)
        return planned.fault

    def active(self, fault: Fault) -> bool | None:
        return fault.is_active(self.actors.take(fault.probe()))

    def take(self, steps: Any) -> None:
        for result in self.actors.take(steps):
            assert result.exit_code == 0, result


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    with Lab.up(Topology(hosts=2, nics=2)) as lab, ExitStack() as stack:
        lab.hosts["h1"].run(["sh", "-ec", PREPARE], timeout_s=60)
        yield Net(lab, stack)


def facts(host: Host) -> dict[str, Any]:
    """All that a fault could leave behind. Order counts for addresses, not for routes."""
    links = json.loads(host.run(["ip", "-j", "-d", "addr", "show"]).stdout)
    said = {
        what: host.run(argv).stdout.splitlines()
        for what, argv in {
            "routes": ["ip", "-o", "-4", "route", "show", "table", "all"],
            "routes6": ["ip", "-o", "-6", "route", "show", "table", "all"],
            "rules": ["ip", "rule"],
            "rules6": ["ip", "-6", "rule"],
            "permanent": ["ip", "-o", "neigh", "show", "nud", "permanent"],
            "queues": ["tc", "-j", "-d", "-raw", "qdisc", "show"],
            "classes": ["tc", "class", "show", "dev", "eth1"],
            "nft": ["nft", "list", "ruleset"],
        }.items()
    }
    return {"links": links, **{what: lines if what == "nft" else sorted(lines) for what, lines in said.items()}}


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {what: (before[what], after[what]) for what in before if before[what] != after[what]}


NIC = "host: h1, nic: eth1, duration_s: 1.0"
CASES = {
    "link_down": (NIC, False),
    "flap": ("host: h1, nic: eth1, times: 1, down_s: 1.0, up_s: 1.0", False),
    "rail_down": ("rail: 1, duration_s: 1.0", False),
    "black_hole": (NIC, False),
    "one_way": (f"{NIC}, direction: in", False),
    "loss": (f"{NIC}, percent: 99.999", False),
    "rate": (f"{NIC}, fraction: 0.5", True),
    "address_removed": (NIC, False),
    "side_channel_lost": ("host: h1, duration_s: 1.0", True),
}
"""What each says besides its kind, and whether h1 then still answers over eth1."""


def test_every_kind_that_differs_inside_hosts_is_tried() -> None:
    """Those that lose some packets and pass others are in test_faults_some_lab.py."""
    some = {"tcp_lost", "udp_lost", "big_packets_lost"}
    assert {kind for kind in kinds() if type(example(kind, inside=True)) is not kinds()[kind]} - some <= set(CASES)


@pytest.mark.parametrize("kind", CASES)
def test_a_fault_inside_a_host_does_what_it_says_and_is_undone_exactly(net: Net, kind: str) -> None:
    words, answers = CASES[kind]
    host = net.lab.hosts["h1"]
    before = facts(host)
    asked = net.fault(kind, words)
    fault = asked.knowing(net.actors.take(asked.facts()))
    assert net.active(fault) is False
    assert net.hears()
    try:
        net.take(fault.inject())
        assert net.active(fault) is True
        assert net.hears(wanted=answers) is answers
        if kind == "side_channel_lost":
            assert not net.hears(SIDE, wanted=False)
        if kind in ("link_down", "rate"):
            assert differences(before, facts(host)), "the facts that are compared do not see the fault"
    finally:
        net.take(fault.revert())
    assert net.active(fault) is False
    assert differences(before, facts(host)) == {}
    net.take(fault.revert())
    assert differences(before, facts(host)) == {}, "undoing it once more changed something"
    assert net.hears()


@pytest.mark.slow
def test_addresses_that_are_still_tried_for_duplicates_hold_up_their_routes_only_for_a_while(net: Net) -> None:
    """A route with a source waits until the kernel has found that nobody else has the address."""
    host = net.lab.hosts["h1"]
    before = facts(host)
    asked = net.fault("link_down", NIC)
    fault = asked.knowing(net.actors.take(asked.facts()))
    host.run(["sysctl", "-qw", "net.ipv6.conf.eth1.accept_dad=1"])
    try:
        net.take(fault.inject())
        net.take(fault.revert())
    finally:
        deadline = time.monotonic() + 60
        while any("tentative" in str(link) for link in facts(host)["links"]) and time.monotonic() < deadline:
            time.sleep(0.05)
        host.run(["sysctl", "-qw", "net.ipv6.conf.eth1.accept_dad=0"])
    assert differences(before, facts(host)) == {}


def test_what_cannot_be_given_back_is_refused_before_anything_is_broken(net: Net) -> None:
    host = net.lab.hosts["h1"]
    down, late = net.fault("link_down", NIC), net.fault("delay", f"{NIC}, delay_ms: 5.0")
    with pytest.raises(ValueError, match="queues below its token bucket"):
        late.knowing(net.actors.take(late.facts()))
    host.run(["ip", "link", "add", "link", "eth1", "name", "eth1.7", "type", "macvlan"])
    try:
        with pytest.raises(ValueError, match=r"eth1\.7 stand"):
            down.knowing(net.actors.take(down.facts()))
    finally:
        host.run(["ip", "link", "del", "eth1.7"])
    host.run(["ip", "nexthop", "add", "id", "7", "via", "10.2.0.1", "dev", "eth1"])
    host.run(["ip", "route", "add", "10.99.0.0/16", "nhid", "7"])
    try:
        with pytest.raises(ValueError, match="nexthop object"):
            down.knowing(net.actors.take(down.facts()))
    finally:
        host.run(["ip", "nexthop", "del", "id", "7"])


def test_a_host_says_what_it_can_carry(net: Net) -> None:
    able = parse(net.lab.hosts["h1"].run(question(), check=False))
    assert lacking(net.fault("black_hole", f"{NIC}"), able) == []
    assert lacking(net.fault("qp_error", NIC), able) == ["it has no RDMA device"]
    cut = net.fault("controller_lost", "host: h1, duration_s: 20.0")
    assert lacking(cut, able) == ["it is not reached over SSH"]
    with pytest.raises(ValueError, match="not reached over SSH"):
        cut.knowing(net.actors.take(cut.facts()))
