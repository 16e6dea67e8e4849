"""Several NICs of a host in one subnet, as the kernel has it by itself: any answers for all, the first one sends."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from harness.hosts import Host
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from r2cc.pytest_plugin import LabMaker

pytestmark = [pytest.mark.lab, pytest.mark.timeout(60)]

ASK = """
import select, socket, sys, time
nic, mine, wanted = sys.argv[1:]
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806)); link.bind((nic, 0x0806))
mac = link.getsockname()[4]
head = b"\\x00\\x01\\x08\\x00\\x06\\x04"
link.send(b"\\xff" * 6 + mac + b"\\x08\\x06" + head + b"\\x00\\x01" + mac + socket.inet_aton(mine)
          + bytes(6) + socket.inet_aton(wanted))
found, until = set(), time.monotonic() + 0.4
while (left := until - time.monotonic()) > 0 and select.select([link], [], [], left)[0]:
    frame = link.recv(200)
    if frame[20:22] == b"\\x00\\x02" and frame[28:32] == socket.inet_aton(wanted):
        found.add(frame[22:28].hex(":"))
print("\\n".join(sorted(found)))
"""
"""Who says that the address is theirs."""
ECHO = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("0.0.0.0", 7007)); print("ready", flush=True)
while True:
    s.sendto(*s.recvfrom(2000))
"""
TALK = """
import socket, sys
nic, mine, there = sys.argv[1:]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2)
if nic:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, nic.encode())
s.bind((mine, 0))
for _ in range(40):
    s.sendto(bytes(1000), (there, 7007)); s.recv(2000)
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.up(Topology(hosts=2, nics=2, one_subnet=True)) as made:
        yield made


def macs(host: Host) -> dict[str, str]:
    return {link["ifname"]: link["address"] for link in json.loads(host.run(["ip", "-j", "link"]).stdout)}


def sent(host: Host, nic: str) -> int:
    return int(host.read_text(f"/sys/class/net/{nic}/statistics/tx_bytes"))


def answering(lab: Lab, nic: str, mine: str, wanted: str) -> set[str]:
    said = lab.hosts["h0"].run([sys.executable, "-ISc", ASK, nic, mine, wanted], timeout_s=10).stdout.split()
    theirs = {mac: name for name, mac in macs(lab.hosts["h1"]).items()}
    return {theirs[mac] for mac in said}


def test_names_and_addresses_are_those_of_every_lab_in_one_subnet(lab: Lab) -> None:
    assert lab.warnings == []
    assert [nic.address for nic in lab.nics] == ["10.1.0.1", "10.2.0.1", "10.1.0.2", "10.2.0.2"]
    routes = json.loads(lab.hosts["h1"].run(["ip", "-j", "route", "show", "10.0.0.0/11"]).stdout)
    assert [(route["dev"], route["prefsrc"], route["protocol"]) for route in routes] == [
        ("eth0", "10.1.0.2", "kernel"),
        ("eth1", "10.2.0.2", "kernel"),
    ]
    assert all(route["metrics"][0]["initcwnd"] == 24 for route in routes)
    ports = {port["ifname"]: port.get("master") for port in json.loads(lab.switch.run(["ip", "-j", "link"]).stdout)}
    assert {ports[nic.switch_port] for nic in lab.nics} == {"rail0"}


@pytest.mark.parametrize("name", ["arp_ignore", "arp_announce", "rp_filter"])
def test_nothing_is_set_that_keeps_nics_apart(lab: Lab, name: str) -> None:
    for where in ("all", "eth0", "eth1"):
        assert lab.hosts["h1"].read_text(f"/proc/sys/net/ipv4/conf/{where}/{name}").strip() == "0"


def test_any_nic_answers_for_any_address(lab: Lab, r2cc_lab: LabMaker) -> None:
    """What is called ARP flux; not where each rail is a network of its own."""
    assert answering(lab, "eth1", "10.2.0.1", "10.2.0.2") == {"eth0", "eth1"}
    assert answering(r2cc_lab(hosts=2, nics=2), "eth1", "10.2.0.1", "10.2.0.2") == {"eth1"}


def test_what_is_not_bound_to_its_nic_leaves_by_the_first(lab: Lab) -> None:
    """40 datagrams of a kilobyte from eth1's address, without and with SO_BINDTODEVICE."""
    host, echo = lab.hosts["h0"], lab.hosts["h1"].spawn([sys.executable, "-ISc", ECHO])
    try:
        assert echo.stdout is not None
        assert echo.stdout.readline() == b"ready\n"
        for bound, by in (("", "eth0"), ("eth1", "eth1")):
            before = {nic: sent(host, nic) for nic in ("eth0", "eth1")}
            host.run([sys.executable, "-ISc", TALK, bound, "10.2.0.1", "10.2.0.2"], timeout_s=20)
            more = {nic: sent(host, nic) - before[nic] for nic in before}
            assert more.pop(by) > 40_000
            assert max(more.values()) < 5_000
    finally:
        echo.close()


def test_the_management_network_is_its_own(lab: Lab) -> None:
    (way,) = json.loads(lab.hosts["h0"].run(["ip", "-j", "route", "get", "10.250.0.2"]).stdout)
    assert way["dev"] == "mgmt0"
