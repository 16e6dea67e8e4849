"""`r2cc doctor` on a lab, broken in one way after the other, and over SSH."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import sshd

from harness import schemas
from harness.doctor import engine, examination, registry
from harness.doctor.model import Report, Severity
from harness.lab.lab import Lab, Nic
from harness.lab.topology import Topology

pytestmark = pytest.mark.lab

REPO = Path(__file__).parents[2]
LIMIT_S = 60.0
NEEDS_SSHD = [
    pytest.mark.skipif(sshd.SSHD is None, reason="no sshd (apt-get install openssh-server)"),
    pytest.mark.skipif(os.geteuid() != 0, reason="sshd in a namespace needs root, to become its users"),
]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.up(Topology.load("hosts: 3\nnics: 2\n")) as made:
        yield made


def examined(lab: Lab) -> Report:
    data = {name: tuple(nic.name for nic in lab.nics if nic.host == name) for name in lab.hosts}
    found = examination.examined(examination.Ward("lab", lab.hosts, data), pid=None, tries_paths=True, sends=True)
    assert not found.failed
    return engine.examine(found.fleet, registry.CHECKS)


def bad(report: Report) -> set[tuple[str, tuple[str, ...], str]]:
    """What is worse than a note."""
    worse = (Severity.ERROR, Severity.WARNING)
    return {(each.check, each.hosts, each.subject) for each in report.findings if each.severity in worse}


def nic_of(lab: Lab, host: str, name: str) -> Nic:
    return next(nic for nic in lab.nics if (nic.host, nic.name) == (host, name))


def test_a_sound_lab_has_nothing_that_breaks_a_run(lab: Lab) -> None:
    report = examined(lab)
    assert bad(report) == set()
    skipped = {each.check for each in report.skipped}
    assert {"nic-state", "nic-mtu", "nic-shaping", "backup", "path-route", "clock"} <= {*report.passed} - skipped


def set_link(*words: str) -> Callable[[Lab], None]:
    return lambda lab: lab.hosts["h1"].run(["ip", "link", "set", "eth1", *words]) and None


def cut(lab: Lab) -> None:
    lab.switch.run(["ip", "link", "set", nic_of(lab, "h2", "eth0").switch_port, "down"])


def mend(lab: Lab) -> None:
    lab.switch.run(["ip", "link", "set", nic_of(lab, "h2", "eth0").switch_port, "up"])


@pytest.mark.parametrize(
    ("breaks", "mends", "expected"),
    [
        (set_link("mtu", "1500"), set_link("mtu", "9000"), {("nic-mtu", ("h1",), "eth1")}),
        (set_link("down"), set_link("up"), {("nic-state", ("h1",), "eth1"), ("backup", ("h1",), "eth0")}),
        (cut, mend, {("nic-state", ("h2",), "eth0"), ("backup", ("h2",), "eth1")}),
    ],
    ids=["MTU", "down", "cable"],
)
def test_what_is_broken_is_named(
    lab: Lab, breaks: Callable[[Lab], None], mends: Callable[[Lab], None], expected: set[object]
) -> None:
    breaks(lab)
    try:
        found = bad(examined(lab))
    finally:
        mends(lab)
    # The long packets that the narrow NIC loses are seen from its peers, where there is a ping to see it with.
    assert found - {("path-mtu", ("h0", "h2"), "eth1")} == expected


@pytest.mark.parametrize(("nic", "where"), [("eth1", "on its rail"), ("mgmt0", "on the management network")])
def test_udp_that_a_firewall_drops_is_named(lab: Lab, nic: str, where: str) -> None:
    """h1 drops what it is sent; its own datagrams get out."""
    host = lab.hosts["h1"]
    host.run(["nft", "add table inet theirs; add chain inet theirs input { type filter hook input priority 0; }"])
    host.run(["nft", f"add rule inet theirs input iifname {nic} meta l4proto udp drop"])
    try:
        report = examined(lab)
    finally:
        host.run(["nft", "delete table inet theirs"])
    assert bad(report) == {("udp", ("h0", "h2"), nic)}
    (finding,) = [each for each in report.findings if each.check == "udp"]
    assert finding.seen == f"no UDP datagram gets to h1 {where}: R2CC goes over TCP there"
    assert "udp" in examined(lab).passed


def test_two_nics_in_one_subnet_are_named(lab: Lab) -> None:
    """The classic: no table a NIC, so everything leaves by the first of them."""
    moves = []
    for name, host in lab.hosts.items():
        first, second = (nic_of(lab, name, nic).address for nic in ("eth0", "eth1"))
        network, _, number = first.rpartition(".")
        moves.append((host, f"{second}/24", f"{network}.10{number}/24"))
    try:
        for host, own, moved in moves:
            host.run(["ip", "addr", "add", moved, "dev", "eth1"])
            host.run(["ip", "addr", "del", own, "dev", "eth1"])
        found = bad(examined(lab))
    finally:
        for host, own, moved in moves:
            host.run(["ip", "addr", "add", own, "dev", "eth1"], check=False)
            host.run(["ip", "addr", "del", moved, "dev", "eth1"], check=False)
    every = ("h0", "h1", "h2")
    wrong = {("nic-subnet", every, "eth0,eth1"), ("path-route", every, "eth1"), ("backup", every, "eth0")}
    assert wrong <= found


@pytest.fixture(scope="module")
def inventory(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """h1 and h2 by their sshds, h2 with a clock of 10 minutes ahead; and h9, which is not there."""
    made = tmp_path_factory.mktemp("doctor")
    key, known = sshd.keygen(made / "user_key"), []
    fast = made / "fast"
    fast.mkdir()
    (fast / "date").write_text('#!/bin/sh\nexec /bin/date -d "+10 minutes" "$@"\n')
    (fast / "date").chmod(0o755)
    with ExitStack() as running:
        for number in (1, 2):
            address, here = f"10.250.0.{number + 1}", made / f"h{number}"
            here.mkdir()
            (here / "authorized_keys").write_text(sshd.public(key) + "\n")
            known.append(f"{address} {sshd.public(sshd.keygen(here / 'host_key'))}\n")
            text = sshd.configuration(here, address, 22)
            path = f"PATH={fast}:/usr/bin:/bin" if number == 2 else ""
            (here / "config").write_text(text.replace("SetEnv SHLVL=5", f"SetEnv SHLVL=5 {path}"))
            process = lab.hosts[f"h{number}"].spawn(sshd.command(here))
            running.callback(process.close)
            await_listening(lab, number)
        (made / "known_hosts").write_text("".join(known))
        defaults = {"user": "root", "key": str(key), "known_hosts": str(made / "known_hosts")}
        hosts = [
            {"name": "h[1-2]", "address": "10.250.0.[2-3]", "nics": {"data": "eth[0-1]"}},
            {"name": "h9", "address": "10.250.0.1", "port": 9},
        ]
        (made / "inventory.yaml").write_text(json.dumps({"schema": 1, "defaults": defaults, "hosts": hosts}))
        yield made / "inventory.yaml"


def await_listening(lab: Lab, number: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    while ":0016 " not in lab.hosts[f"h{number}"].read_text("/proc/net/tcp"):
        assert time.monotonic() < deadline, f"sshd of h{number} does not listen"
        time.sleep(0.02)


def doctor(lab: Lab, *words: str) -> tuple[int, str]:
    """From h0, which has the network of the others."""
    env = {"PYTHONPATH": str(REPO), "HOME": "/nonexistent", "SSH_AUTH_SOCK": ""}
    main = "from harness.cli import main; main()"
    process = lab.hosts["h0"].spawn([sys.executable, "-c", main, "doctor", *words], env=env, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    said = process.stdout.read().decode()
    code = process.wait(LIMIT_S)
    process.close()
    return code, said


class TestOverSsh:
    pytestmark = NEEDS_SSHD

    def test_what_the_others_have_is_shown_where_one_does_not_answer(self, lab: Lab, inventory: Path) -> None:
        lab.hosts["h1"].run(["ip", "link", "set", "eth1", "down"])
        try:
            code, said = doctor(lab, "--json", "--inventory", str(inventory))
        finally:
            lab.hosts["h1"].run(["ip", "link", "set", "eth1", "up"])
        report = json.loads(said)
        assert schemas.problems("doctor", report) == []
        assert code == 3
        assert [(each["name"], each["kind"]) for each in report["failed"]] == [("h9", "unreachable")]
        found = {(each["check"], *each["hosts"], each["subject"]): each["seen"] for each in report["findings"]}
        assert found["nic-state", "h1", "eth1"] == "it is down"
        assert "10.0 minutes ahead" in found["clock", "h2", ""]
        assert ("clock", "h1", "") not in found
        assert [each["hosts"] for each in report["without_backup"]] == [["h1"]]

    def test_some_hosts_and_some_checks(self, lab: Lab, inventory: Path) -> None:
        for words in (("--inventory", str(inventory), "--host", "h[1-2]"), ("--inventory", f"{inventory}:h[1-2]")):
            code, said = doctor(lab, *words, "--check", "nic-mtu,nic-state")
            assert code == 0, said
            assert "2 checks on 2 hosts: 0 errors" in said
