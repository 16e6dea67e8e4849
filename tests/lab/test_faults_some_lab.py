"""Faults that lose some packets and pass others: real TCP and UDP sockets say which, in the switch and inside the host.

Lab hosts stand for a cluster's, too: their NICs are then said to have no port of a switch that we may touch.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos.experiment.file import loads
from chaos.experiment.planned import planned_faults
from chaos.faults.fault import Fault
from chaos.run.actors import Actors
from harness.lab.lab import Lab
from harness.lab.topology import Topology

pytestmark = [pytest.mark.timed, pytest.mark.lab, pytest.mark.timeout(60)]

ANSWER = """
import socket, threading
def serve(link):
    with link:
        stream = link.makefile("rb")
        while head := stream.read(8):
            link.sendall(head + stream.read(int.from_bytes(head, "big")))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(("0.0.0.0", 40007))
def echo():
    while True:
        udp.sendto(*udp.recvfrom(65535))
threading.Thread(target=echo, daemon=True).start()
door = socket.create_server(("0.0.0.0", 7007))
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=(door.accept()[0],), daemon=True).start()
"""
BUSY = 40
"""How many times longer is waited for what should come: the machine may be busy with others."""
ASK = """
import socket, sys
opened, times = {}, 1
def udp(address, size):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.settimeout(0.25 * times); link.bind(("0.0.0.0", 40008))
        for _ in range(2):
            try:
                link.sendto(bytes(int(size)), (address, 40007))
                return len(link.recv(65535)) == int(size)
            except TimeoutError:
                pass
    return False
def connect(address, longest="0"):
    link = socket.socket(); link.settimeout(1.0 * times)
    if int(longest):
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, int(longest))
    link.connect((address, 7007))
    return link
def talk(link, size, seconds):
    link.settimeout(float(seconds) * times)
    message = int(size).to_bytes(8, "big") + bytes(int(size))
    link.sendall(message)
    got = 0
    while got < len(message):
        got += len(link.recv(1 << 20))
    return True
def tcp(address, size, longest="0"):
    with connect(address, longest) as link:
        return talk(link, size, 0.5)
def open(address):
    opened[address] = connect(address)
    return talk(opened[address], 300000, 2)
def over(address, size, seconds):
    return talk(opened[address], size, seconds)
for line in sys.stdin:
    times, name, *words = line.split()
    times = int(times)
    try:
        said = {"udp": udp, "tcp": tcp, "open": open, "over": over}[name](*words)
    except OSError:
        said = False
    print("yes" if said else "no", flush=True)
"""
KEPT = ("ifname", "flags", "mtu", "master", "gso_max_segs", "gso_max_size")
THERE, OTHER, MANAGEMENT = "10.2.0.2", "10.1.0.2", "10.250.0.2"
"""Addresses of h1: at the NIC that is broken, at its other one, on the management network."""


class Net:
    """Somebody on h0 who asks h1."""

    def __init__(self, lab: Lab, stack: ExitStack) -> None:
        self.lab = lab
        self.actors = Actors(lab.switch, lab.hosts, lambda rank: pytest.fail("no rank runs"))
        answering = lab.hosts["h1"].spawn([sys.executable, "-ISc", ANSWER])
        stack.callback(answering.close)
        assert answering.stdout is not None
        assert answering.stdout.readline() == b"ready\n"
        theirs, self.asking = os.pipe2(os.O_CLOEXEC)
        asker = lab.hosts["h0"].spawn([sys.executable, "-ISc", ASK], stdin=theirs)
        os.close(theirs)
        stack.callback(asker.close)
        stack.callback(os.close, self.asking)
        assert asker.stdout is not None
        self.said = asker.stdout

    def passes(self, *words: Any, wanted: bool = True) -> bool:
        """What is wanted may be late; what is not must not come soon."""
        os.write(self.asking, (" ".join(map(str, (BUSY if wanted else 1, *words))) + "\n").encode())
        return {b"yes\n": True, b"no\n": False}[self.said.readline()]

    def fault(self, kind: str, words: str = "", *, inside: bool) -> Fault:
        nics = [replace(nic, switch_port="") for nic in self.lab.nics] if inside else self.lab.nics
        text = (
            "name: one\ntopology: {hosts: 2, nics: 2}\nworkload: {iterations: 1}\nfaults:\n"
            f"  - {{id: f, kind: {kind}, at: {{time_s: 0.0}}, host: h1, nic: eth1, duration_s: 1.0{words}}}\n"
            "arms: {migrate: {expect: any}}\n"
        )
        (planned,) = planned_faults(loads(text, Path("one.yaml")), nics)
        return planned.fault.knowing(self.actors.take(planned.fault.facts()))

    def take(self, steps: Any) -> None:
        for result in self.actors.take(steps):
            assert result.exit_code == 0, result

    def active(self, fault: Fault) -> bool | None:
        return fault.is_active(self.actors.take(fault.probe()))

    def state(self) -> dict[str, str]:
        """All that a fault could leave behind."""
        found = {}
        for host in (self.lab.switch, *self.lab.hosts.values()):
            links = json.loads(host.run(["ip", "-j", "-d", "link", "show"]).stdout)
            rules = host.run(["nft", "list", "ruleset"]).stdout
            queues = host.run(["tc", "-d", "-raw", "qdisc", "show"]).stdout
            kept = [[link.get(key) for key in KEPT] for link in links]
            found[host.name] = json.dumps([kept, rules, queues])
        return found


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    with Lab.up(Topology(hosts=2, nics=2)) as lab, ExitStack() as stack:
        yield Net(lab, stack)


BEDS = pytest.mark.parametrize("inside", [False, True], ids=["switch", "host"])
EVERYTHING = {
    ("tcp", THERE, 64): True,
    ("tcp", THERE, 300_000): True,
    ("udp", THERE, 64): True,
    ("udp", THERE, 4096): True,
    ("udp", THERE, 8972): True,
    ("udp", OTHER, 4096): True,
    ("tcp", OTHER, 300_000): True,
    ("udp", MANAGEMENT, 64): True,
    ("tcp", MANAGEMENT, 300_000): True,
}
LOST: dict[tuple[str, str], list[tuple[Any, ...]]] = {
    ("tcp_lost", ""): [("tcp", THERE, 64), ("tcp", THERE, 300_000)],
    ("udp_lost", ""): [("udp", THERE, 64), ("udp", THERE, 4096), ("udp", THERE, 8972)],
    ("udp_lost", ", management: true"): [
        *(("udp", THERE, size) for size in (64, 4096, 8972)),
        ("udp", MANAGEMENT, 64),
    ],
    ("big_packets_lost", ""): [("tcp", THERE, 300_000), ("udp", THERE, 4096), ("udp", THERE, 8972)],
    ("big_packets_lost", ", above_bytes: 5000"): [("tcp", THERE, 300_000), ("udp", THERE, 8972)],
}
"""What does not come back under each fault; everything else does. Inside hosts `management` takes all their NICs."""


@BEDS
@pytest.mark.parametrize("asked", LOST, ids="".join)
def test_what_is_lost_and_what_passes(net: Net, asked: tuple[str, str], inside: bool) -> None:
    kind, words = asked
    lost = set(LOST[asked])
    if inside and "management" in words:
        lost.add(("udp", OTHER, 4096))
    before = net.state()
    fault = net.fault(kind, words, inside=inside)
    assert net.active(fault) is False
    assert {each: net.passes(*each) for each in EVERYTHING} == EVERYTHING
    try:
        net.take(fault.inject())
        assert net.active(fault) is True
        wanted = {each: each not in lost for each in EVERYTHING}
        assert {each: net.passes(*each, wanted=wanted[each]) for each in EVERYTHING} == wanted
    finally:
        net.take(fault.revert())
    assert net.active(fault) is False
    net.take(fault.revert())
    assert net.state() == before
    assert {each: net.passes(*each) for each in EVERYTHING} == EVERYTHING


@BEDS
@pytest.mark.parametrize("kind", ["tcp_lost", "big_packets_lost"])
def test_a_connection_that_was_open_stands_still_and_goes_on(net: Net, kind: str, inside: bool) -> None:
    """TCP had chosen its packets before the fault; what is lost is sent again when it is over."""
    fault = net.fault(kind, inside=inside)
    assert net.passes("open", THERE)
    try:
        net.take(fault.inject())
        assert not net.passes("over", THERE, 300_000, 0.5, wanted=False)
    finally:
        net.take(fault.revert())
    assert net.passes("over", THERE, 64, 5)


def test_small_packets_that_tcp_hands_over_together_are_small_packets(net: Net) -> None:
    """300 of 1000 bytes in a few large pieces: as on a wire they pass, where a rule on the pieces would take them."""
    fault = net.fault("big_packets_lost", inside=False)
    try:
        net.take(fault.inject())
        assert net.passes("tcp", THERE, 300_000, 1000)
        assert not net.passes("tcp", THERE, 300_000, 4000, wanted=False)
    finally:
        net.take(fault.revert())


@BEDS
def test_where_no_packet_is_that_long_there_is_no_fault(net: Net, inside: bool) -> None:
    with pytest.raises(ValueError, match=r"MTU 9000: no packet is longer than above_bytes \(9000\)"):
        net.fault("big_packets_lost", ", above_bytes: 9000", inside=inside)
    net.fault("big_packets_lost", ", above_bytes: 8999", inside=inside)


def test_an_old_kernel_without_egress_hook_loses_the_same(net: Net) -> None:
    """Chains of family inet stand in; they see a packet without its frame."""
    for kind, lost in (("big_packets_lost", ("udp", THERE, 4096)), ("tcp_lost", ("tcp", THERE, 64))):
        fault: Any = replace(net.fault(kind, inside=True), without_egress=("h1",))  # type: ignore[type-var]
        try:
            net.take(fault.inject())
            assert net.active(fault) is True
            assert not net.passes(*lost, wanted=False)
            assert net.passes("udp", THERE, 64)
        finally:
            net.take(fault.revert())
        assert net.active(fault) is False
