"""`r2cc doctor` on emulated machines: soft-RoCE, clocks of their own, busybox's tools."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from harness.doctor import engine, examination, registry
from harness.doctor.model import Report, Severity
from harness.facts import catalogue
from harness.vmlab.lab import VmLab

pytestmark = [pytest.mark.vm, pytest.mark.slow]

TEN_MINUTES_S = 600


def examined(lab: VmLab) -> tuple[Report, examination.Examined]:
    data = {name: tuple(nic.name for nic in lab.nics if nic.host == name) for name in lab.hosts}
    found = examination.examined(examination.Ward("vm", lab.hosts, data), pid=None, tries_paths=True)
    assert not found.failed
    return engine.examine(found.fleet, registry.CHECKS), found


def seen(report: Report) -> dict[tuple[str, str, str], str]:
    """What is worse than a note; guests have little memory, and their disks are in it."""
    return {
        (each.check, " ".join(each.hosts), each.subject): each.seen
        for each in report.findings
        if each.severity in (Severity.ERROR, Severity.WARNING) and each.check not in ("prefix", "shared-memory")
    }


@pytest.fixture
def set_clock(lab: VmLab) -> Iterator[VmLab]:
    host = lab.hosts["h1"]
    try:
        host.run(["date", "-s", f"@{int(time.time()) + TEN_MINUTES_S}"])
        yield lab
    finally:
        host.run(["date", "-s", f"@{int(time.time())}"])


def test_sound_guests(lab: VmLab) -> None:
    report, found = examined(lab)
    assert seen(report) == {}
    assert {"rdma-port", "gid-index", "rdma-mtu", "rdma-netns", "path-reach"} <= {*report.passed}
    for patient in found.fleet.patients:
        ports = patient.ports()
        assert {nic: port.device for nic, port in ports.items()} == {"eth0": "rxe0", "eth1": "rxe1"}
        devices = patient.known.get(catalogue.IBV)
        assert devices is not None
        assert [device.name for device in devices] == ["rxe0", "rxe1"]
        assert all(path.small for path in patient.paths)


def test_a_clock_ten_minutes_off(set_clock: VmLab) -> None:
    report, _ = examined(set_clock)
    assert "10.0 minutes ahead" in seen(report)["clock", "h1", ""]


def test_mtu_and_cable(lab: VmLab) -> None:
    host = lab.hosts["h1"]
    host.run(["ip", "link", "set", "eth1", "mtu", "1500"])
    cut = next(nic for nic in lab.nics if (nic.host, nic.name) == ("h0", "eth0"))
    lab.set_link(cut.switch_port, False)
    try:
        report, _ = examined(lab)
    finally:
        host.run(["ip", "link", "set", "eth1", "mtu", "9000"])
        lab.set_link(cut.switch_port, True)
    found = seen(report)
    assert found["nic-mtu", "h1", "eth1"] == "MTU 1500, its rail's other NICs have 9000"
    assert found["rdma-mtu", "h1", "eth1"] == "RDMA MTU 1024, most have 4096"
    assert found["nic-state", "h0", "eth0"] == "no signal: its link is down"
    assert ("rdma-port", "h0", "eth0") in found
    assert found["backup", "h0", "eth1"] == "no backup: eth0 is down or not there"
