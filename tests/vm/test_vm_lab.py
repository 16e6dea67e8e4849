"""The vm lab itself: one pair of guests for all tests here. Every wait is bounded; the lab dies with this process."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.hosts import Process
from harness.lab.lab import Nic
from harness.lab.state import living
from harness.vmlab.lab import VmLab
from tests.vm.conftest import ENGINE
from tests.vm.slowness import eventually, slowness

pytestmark = [pytest.mark.vm, pytest.mark.slow]

RUN = (
    "import click; from harness import cli; from harness.commands.lab import lab; cli.cli.add_command(lab); cli.main()"
)
VERBS = (Path(__file__).parent / "verbs.py").read_text()
FLAGS = (Path(__file__).parent / "flags.py").read_text()
STEP_S = 60.0
PORTS = itertools.count(20000)


def nic_of(lab: VmLab, host: str, name: str) -> Nic:
    return next(nic for nic in lab.nics if (nic.host, nic.name) == (host, name))


def carrier(lab: VmLab, host: str, name: str) -> str:
    return lab.hosts[host].read_text(f"/sys/class/net/{name}/carrier").strip()


def pings(lab: VmLab, host: str, address: str) -> bool:
    """One echo within a second."""
    return lab.hosts[host].run(["ping", "-c1", "-W1", address], timeout_s=20, check=False).exit_code == 0


def test_guests_have_what_the_contract_says(lab: VmLab) -> None:
    for index, host in enumerate(lab.hosts.values()):
        links = json.loads(host.run(["ip", "-j", "addr", "show"]).stdout)
        found = {link["ifname"]: (link["mtu"], link["addr_info"][0]["local"]) for link in links}
        assert found["eth0"] == (9000, f"10.1.0.{index + 1}")
        assert found["eth1"] == (9000, f"10.2.0.{index + 1}")
        assert found["mgmt0"] == (9000, f"10.250.0.{index + 1}")
        devices = json.loads(host.run(["rdma", "-j", "link"]).stdout)
        assert [(d["ifname"], d["netdev"], d["state"]) for d in devices] == [
            ("rxe0", "eth0", "ACTIVE"),
            ("rxe1", "eth1", "ACTIVE"),
        ]
        assert host.run(["hostname"]).stdout == f"h{index}\n"


def test_no_flags_that_a_processor_cannot_have(lab: VmLab) -> None:
    """QEMU 7.2 leaves any bits in them after cmpxchg16b; the kernel takes them for its own, and dies of it."""
    for host in lab.hosts.values():
        said = json.loads(host.run(["python3", "-c", FLAGS], timeout_s=STEP_S).stdout)
        assert said["impossible"] == 0, f"{host.name}: {said['impossible']:#x}"


def test_the_checkout_is_there_at_the_same_path_and_cannot_be_written(lab: VmLab, repository: Path) -> None:
    assert lab.hosts["h0"].read_text(str(repository / "pyproject.toml")) == (repository / "pyproject.toml").read_text()
    done = lab.hosts["h0"].run(["touch", str(repository / "x")], check=False)
    assert "Read-only file system" in done.stderr
    assert not (repository / "x").exists()


def test_guests_keep_our_time(lab: VmLab) -> None:
    for host in lab.hosts.values():
        before = time.monotonic()
        inside = float(host.run(["python3", "-Sc", "import time; print(time.monotonic())"], timeout_s=STEP_S).stdout)
        assert before < inside < time.monotonic()


def test_large_frames_pass_on_every_rail(lab: VmLab) -> None:
    for address in ("10.1.0.2", "10.2.0.2", "10.250.0.2"):
        done = lab.hosts["h0"].run(["ping", "-c1", "-W5", "-s", "8972", address], timeout_s=20)
        assert "1 packets received" in done.stdout


def test_a_pulled_cable_takes_the_carrier_at_its_own_end_only(lab: VmLab) -> None:
    lab.set_link("h1-eth0", False)
    eventually(lambda: carrier(lab, "h1", "eth0") == "0", "the guest keeps its carrier")
    assert carrier(lab, "h0", "eth0") == "1"
    devices = json.loads(lab.hosts["h1"].run(["rdma", "-j", "link"]).stdout)
    assert {device["ifname"]: device["state"] for device in devices} == {"rxe0": "DOWN", "rxe1": "ACTIVE"}
    assert not pings(lab, "h0", "10.1.0.2")
    assert pings(lab, "h0", "10.2.0.2")
    lab.set_link("h1-eth0", True)
    eventually(lambda: pings(lab, "h0", "10.1.0.2"), "the link does not come back")


def test_a_black_hole_takes_frames_and_no_carrier(lab: VmLab) -> None:
    lab.black_hole("h1-eth1", True)
    assert not pings(lab, "h0", "10.2.0.2")
    assert (carrier(lab, "h0", "eth1"), carrier(lab, "h1", "eth1")) == ("1", "1")
    assert lab.wire_state()["h1-eth1"]["to"]["dropped"] > 0
    lab.black_hole("h1-eth1", False)
    eventually(lambda: pings(lab, "h0", "10.2.0.2"), "the black hole does not end")


def test_loss_is_in_the_middle(lab: VmLab) -> None:
    lab.lose("h0-eth0", 0.5, "from")
    lab.hosts["h0"].run(["ping", "-c40", "-i0.02", "-W1", "10.1.0.2"], timeout_s=STEP_S, check=False)
    state = lab.wire_state()["h0-eth0"]["from"]
    assert 5 <= state["dropped"] <= 35
    statistics = lab.hosts["h0"].read_text("/sys/class/net/eth0/statistics/tx_dropped")
    assert statistics.strip() == "0"


def test_an_address_goes_with_its_gid_and_comes_back(lab: VmLab) -> None:
    def has_gid() -> bool:
        return "::ffff:10.2.0.2" in lab.hosts["h1"].run(["ibv_devinfo", "-v", "-d", "rxe1"], timeout_s=STEP_S).stdout

    nic = nic_of(lab, "h1", "eth1")
    assert has_gid()
    lab.set_address(nic, False)
    assert not has_gid()
    lab.set_address(nic, True)
    eventually(has_gid, "the GID does not come back")


def finish(processes: Sequence[Process]) -> list[dict[str, Any]]:
    """What both ends report. A hard limit for each: nothing about soft-RoCE is known to end by itself."""
    deadline = time.monotonic() + STEP_S
    reports = []
    for process in processes:
        code = process.wait(max(0.1, deadline - time.monotonic()))
        assert code == 0, process.stderr_tail()
        assert process.stdout is not None
        reports.append(json.loads(process.stdout.read()))
    return reports


def exchange(lab: VmLab, seconds: float, during: Callable[[], None] | None = None) -> list[dict[str, Any]]:
    """h0 writes into h1's memory over rxe0; `during` happens once data flows. Reports of receiver and sender."""
    port = str(next(PORTS))
    rest = ["rxe0", "10.250.0.2", port, str(seconds)]
    ends = [
        lab.hosts[host].spawn(["python3", "-c", VERBS, role, *rest]) for host, role in (("h1", "recv"), ("h0", "send"))
    ]
    try:
        if during is not None:
            flowing = ["test", "-e", f"/tmp/verbs-{port}"]
            eventually(lambda: lab.hosts["h0"].run(flowing, check=False).exit_code == 0, "no data flows", STEP_S)
            during()
        return finish(ends)
    finally:
        for end in ends:
            end.close()


def test_rdma_writes_arrive(lab: VmLab) -> None:
    receiver, sender = exchange(lab, 1.0)
    assert sender["status"] == "IBV_WC_SUCCESS"
    assert sender["completed"] >= 10
    assert receiver["last"] == sender["completed"]


def test_the_sender_s_own_cable_is_told_at_once_and_ends_in_retries_exceeded(lab: VmLab) -> None:
    _receiver, sender = exchange(lab, STEP_S, lambda: lab.set_link("h0-eth0", False))
    assert sender["status"] == "IBV_WC_RETRY_EXC_ERR"
    assert sender["events"] == ["IBV_EVENT_PORT_ERR"]


def test_the_sender_s_own_address_gone_flushes_its_work_at_once(lab: VmLab) -> None:
    slow = slowness(lab)
    _receiver, sender = exchange(lab, STEP_S, lambda: lab.set_address(nic_of(lab, "h0", "eth0"), False))
    assert sender["status"] == "IBV_WC_WR_FLUSH_ERR"
    assert sender["took_s"] < 0.4 * slow


@pytest.mark.parametrize("fault", ["receiver's cable", "black hole"])
def test_silence_ends_in_retries_exceeded_without_an_event(lab: VmLab, fault: str) -> None:
    def cut() -> None:
        if fault == "black hole":
            lab.black_hole("h1-eth0", True)
        else:
            lab.set_link("h1-eth0", False)

    _receiver, sender = exchange(lab, STEP_S, cut)
    assert sender["status"] == "IBV_WC_RETRY_EXC_ERR"
    assert "IBV_EVENT_PORT_ERR" not in sender["events"]


def test_commands_of_the_lab_work_on_guests(lab: VmLab, repository: Path) -> None:
    def r2cc(*words: str, input: str = "") -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PYTHONPATH": str(repository)}
        command = [sys.executable, "-c", RUN, "lab", *words]
        return subprocess.run(command, env=env, input=input, capture_output=True, text=True, timeout=STEP_S)

    done = r2cc("exec", "--name", lab.name, "h1", "--", "sh", "-c", "hostname; cat; exit 7", input="in")
    assert (done.returncode, done.stdout, done.stderr) == (7, "h1\nin", "")
    status = r2cc("status")
    assert f"{lab.name}: 2 guests x 2 NICs with soft-RoCE, mtu 9000, up until its owner" in status.stdout
    wrong = r2cc("exec", "--name", lab.name, "h9", "true")
    assert (wrong.returncode, "one of: h0, h1, switch" in wrong.stderr) == (2, True)
    taken = r2cc("up", "--kind", "vm", "--name", lab.name)
    assert (taken.returncode, "already up" in taken.stderr) == (2, True)
    topology = r2cc("up", "--kind", "vm", "default")
    assert (topology.returncode, "takes no topology file" in topology.stderr) == (2, True)


def test_a_guest_can_be_stopped_and_goes_on(lab: VmLab) -> None:
    lab.switch.run(["guest", "h1", "pause"])
    try:
        assert not pings(lab, "h0", "10.250.0.2")
    finally:
        lab.switch.run(["guest", "h1", "resume"])
    eventually(lambda: pings(lab, "h0", "10.250.0.2"), "the guest does not go on")


def test_nothing_outlives_its_owner(lab: VmLab, repository: Path) -> None:
    """A second lab, whose owner is killed: keeper, wire and QEMUs are gone a moment later."""
    script = (
        "import time; from harness.vmlab.lab import VmLab; from harness.vmlab.shape import Shape;"
        f"lab = VmLab.up(Shape(hosts=1, nics=1, engine={ENGINE!r}), name='vm-orphan');"
        "print('up', flush=True); time.sleep(100)"
    )
    env = {**os.environ, "PYTHONPATH": str(repository)}
    owner = subprocess.Popen([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE)
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"up\n"
        (state,) = [s for s in living() if s["name"] == "vm-orphan"]
        pids = [state["keeper_pid"], *state["guest_pids"].values()]
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        owner.stdout.close()
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "something of the lab lives on")
