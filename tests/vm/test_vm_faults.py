"""Faults that need a kernel of their own: a NIC off the bus, netem, queue pairs in error. Undone exactly, for real."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos.experiment.file import loads
from chaos.experiment.planned import planned_faults
from chaos.faults.fault import Fault
from chaos.faults.needs import parse, question
from chaos.faults.support import lacking
from chaos.record.journal import read
from chaos.record.live import Display
from chaos.run import runner
from chaos.run.actors import Actors
from chaos.testbed.beds import Bed, topology_of
from chaos.testbed.hostbench import built
from harness.files import rundir
from harness.hosts import Host
from harness.schemas import plain
from harness.sites.site import LAB_ROOT
from harness.sites.vm import hold_rates
from harness.vmlab.lab import VmLab
from harness.vmlab.rdma import device_of
from tests.vm.conftest import ENGINE

pytestmark = [pytest.mark.vm, pytest.mark.build, pytest.mark.slow]

TIMELINE = """
name: one
topology: {hosts: 2, nics: 2}
workload: {net: ib, iterations: 1}
faults:
  - {id: f, kind: %s, host: h0, nic: eth1, at: {time_s: 0.0}, duration_s: 1.0, %s}
arms: {migrate: {expect: any}}
"""
LIMIT_S = 40.0


def fault_on(lab: VmLab, kind: str, words: str) -> tuple[Fault, Actors]:
    """It knows what was there, as the injector has it before it strikes."""
    nics = [replace(nic, switch_port="") for nic in lab.nics]
    (planned,) = planned_faults(loads(TIMELINE % (kind, words), Path("one.yaml")), nics)
    actors = Actors(None, lab.hosts, lambda rank: pytest.fail("no rank runs"))
    return planned.fault.knowing(actors.take(planned.fault.facts())), actors


def take(actors: Actors, steps: Sequence[Any]) -> None:
    for step in steps:
        result = actors.hosts[step.on].run(list(step.argv), input=step.input or None, timeout_s=LIMIT_S, check=False)
        assert result.exit_code == 0, result


def facts(host: Host) -> dict[str, Any]:
    """What a host has; the number of an interface that went and came is a new one."""
    links = json.loads(host.run(["ip", "-j", "-d", "addr", "show"]).stdout)
    plain = [{key: value for key, value in link.items() if key != "ifindex"} for link in links]
    devices = json.loads(host.run(["rdma", "-j", "link"]).stdout)
    said = {
        what: sorted(host.run(argv).stdout.splitlines())
        for what, argv in {
            "routes": ["ip", "-o", "-4", "route", "show", "table", "all"],
            "rules": ["ip", "rule"],
            "queues": ["tc", "-d", "-raw", "qdisc", "show"],
            "nft": ["nft", "list", "ruleset"],
            "settings": ["sh", "-c", "grep -sH '' /proc/sys/net/ipv4/conf/*/* /proc/sys/net/ipv4/neigh/*/*"],
        }.items()
    }
    return {
        "links": sorted(plain, key=lambda link: str(link["ifname"])),
        "rdma": sorted((each["ifname"], each["netdev"]) for each in devices),
        **said,
    }


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {what: (before[what], after[what]) for what in before if before[what] != after[what]}


def ping_ms(host: Host) -> float:
    """The quickest of eight to h1 over eth1; infinite when less than half came back: one bit that is wrong in a frame's
    source address harms no ping."""
    said = host.run(["ping", "-c8", "-i0.1", "-W1", "10.2.0.2"], timeout_s=20, check=False).stdout
    times = [float(word.removeprefix("time=")) for word in said.split() if word.startswith("time=")]
    return min(times) if len(times) >= 4 else float("inf")


def tried(lab: VmLab, kind: str, words: str, queue: str = "") -> tuple[float, float]:
    """Injects, probes, reverts and compares everything; the quickest ping before and during it, in ms."""
    host = lab.hosts["h0"]
    if queue:
        host.run(["tc", *queue.split()])
    host.run(["sysctl", "-w", "net.ipv4.conf.eth1.arp_ignore=1"])
    before, healthy = facts(host), ping_ms(host)
    fault, actors = fault_on(lab, kind, words)
    assert fault.is_active(actors.take(fault.probe())) is False
    try:
        take(actors, fault.inject())
        deadline = time.monotonic() + LIMIT_S
        while fault.is_active(actors.take(fault.probe())) is not True:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        during = ping_ms(host)
        assert differences(before, facts(host)), "the facts that are compared do not see the fault"
    finally:
        take(actors, fault.revert())
    assert fault.is_active(actors.take(fault.probe())) is False
    assert differences(before, facts(host)) == {}
    take(actors, fault.revert())
    assert differences(before, facts(host)) == {}
    assert ping_ms(host) < float("inf")
    return healthy, during


@pytest.mark.skipif(ENGINE == "uml", reason="NICs of User Mode Linux are on no bus")
@pytest.mark.parametrize("method", ["pci", "driver"])
def test_a_nic_that_is_gone_comes_back_with_all_that_it_had(lab: VmLab, method: str) -> None:
    host = lab.hosts["h0"]
    host.run(["ip", "route", "add", "10.77.0.0/16", "via", "10.2.0.2", "dev", "eth1", "mtu", "1400"])
    try:
        _, during = tried(lab, "nic_gone", f"method: {method}")
    finally:
        host.run(["ip", "route", "del", "10.77.0.0/16"])
    assert during == float("inf")


QUEUES = {
    "the kernel's own": "",
    "fq_codel": "qdisc replace dev eth1 root handle 8: fq_codel limit 777 flows 512 target 7ms interval 90ms noecn",
    "tbf": "qdisc replace dev eth1 root handle 9: tbf rate 100mbit burst 64k limit 90000",
    "pfifo_fast": "qdisc replace dev eth1 root handle a: pfifo_fast",
}


@pytest.mark.parametrize("name", QUEUES)
def test_packets_leave_late_and_the_old_queue_is_back(lab: VmLab, name: str) -> None:
    try:
        healthy, during = tried(lab, "delay", "delay_ms: 150.0", QUEUES[name])
    finally:
        lab.hosts["h0"].run(["tc", "qdisc", "del", "dev", "eth1", "root"], check=False)
    assert healthy < 150 <= during < float("inf")


ECHO = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("0.0.0.0", 40007)); print("ready", flush=True)
while True:
    s.sendto(*s.recvfrom(100))
"""
ASK = """
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2); times = []
for _ in range(3):
    began = time.monotonic(); s.sendto(b"x", ("10.2.0.2", 40007)); s.recv(100); times.append(time.monotonic() - began)
print(min(times) * 1000)
"""


def test_the_side_channel_is_late_and_nothing_else(lab: VmLab) -> None:
    host, echo = lab.hosts["h0"], lab.hosts["h1"].spawn(["python3", "-c", ECHO])
    assert echo.stdout is not None
    assert echo.stdout.readline() == b"ready\n"
    before = facts(host)
    fault, actors = fault_on(lab, "side_channel_late", "delay_ms: 200.0")
    take(actors, fault.inject())
    try:
        assert fault.is_active(actors.take(fault.probe())) is True
        assert float(host.run(["python3", "-c", ASK], timeout_s=20).stdout) >= 200
        assert ping_ms(host) < 200
    finally:
        take(actors, fault.revert())
        echo.close()
    assert differences(before, facts(host)) == {}
    take(actors, fault.revert())
    assert fault.is_active(actors.take(fault.probe())) is False
    assert differences(before, facts(host)) == {}


def test_damaged_packets_are_not_delivered(lab: VmLab) -> None:
    _, during = tried(lab, "corrupt", "percent: 100.0")
    assert during == float("inf")


def test_a_rate_on_a_nic_without_a_bucket(lab: VmLab) -> None:
    healthy, during = tried(lab, "rate", "fraction: 0.5, rate_gbit: 0.2")
    assert max(healthy, during) < float("inf"), "a slow NIC still delivers"


def test_a_guest_can_carry_what_is_tried_here(lab: VmLab) -> None:
    able = parse(lab.hosts["h0"].run(question(), check=False))
    for kind, words in (
        *([] if ENGINE == "uml" else [("nic_gone", "")]),
        ("delay", "delay_ms: 1.0"),
        ("corrupt", "percent: 1.0"),
        ("qp_error", ""),
        ("side_channel_late", "delay_ms: 1.0"),
    ):
        assert lacking(fault_on(lab, kind, words)[0], able) == []


QP_ERROR = """
name: qp_error
topology: {hosts: 2, nics: 2, rate_gbit: 0.02}
workload:
  {net: ib, op: allreduce, bytes: 131072, iterations: 24, warmup: 2, channels: 2, chunk_bytes: 8192, slots: 2,
   idle_us: 2000, timeout_s: 60.0}
faults:
  - {id: qp, kind: qp_error, host: h0, nic: eth1, at: {iteration: 8, fraction: 0.5}, duration_s: 2.0}
arms: {migrate: {expect: holds}}
"""


def test_queue_pairs_in_error_move_their_connections_and_nothing_is_wrong(lab: VmLab, tmp_path: Path) -> None:
    experiment = loads(QP_ERROR, Path("qp.yaml"))
    devices = {(nic.host, nic.name): device_of(nic.name) for nic in lab.nics}
    bed = Bed("vm", lab.hosts, lab.switch, list(lab.nics), LAB_ROOT, devices=devices, machines=True)
    hold_rates(bed.switch, bed.nics, topology_of(experiment))
    bench, build = built(quiet=True)
    out = rundir.create(tmp_path, "qp_error")
    request = runner.Request(["migrate"], bench, build, lambda: nullcontext(bed))
    summary = plain(runner.run(experiment, request, out, Display()))
    assert summary["verdict"] == "holds", summary["reasons"]
    run = summary["arms"][0]["runs"][0]
    assert run["completed"]
    assert run["wrong_elements"] == 0
    lines = list(read(out.journal))
    assert [line["phase"] for line in lines if line["event"] == "fault"] == [
        "armed", "injected", "active", "reverted", "verified",
    ]  # fmt: skip
    frozen = {(line["host"], line["nic"]) for line in lines if line["event"] == "path" and line["state"] == "frozen"}
    assert ("h0", "eth1") in frozen
