"""Faults and experiments for real: in the lab's namespaces, with the real bench, ended in every way a run can end.

What is judged here never depends on how busy the machine is: exactness, completion, what is left behind. Times are
looked at only where the difference is one of seconds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from chaos.faults import KINDS
from chaos.injector import Injector
from chaos.journal import Journal, read
from chaos.launch import PlannedFault
from chaos.model import FaultSpec
from harness.lab import state
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.schemas import problems

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

ROOT = Path(__file__).resolve().parents[2]
CLI = [sys.executable, "-c", "from harness.cli import main; main()"]

EXPERIMENT: dict[str, Any] = {
    "name": "small",
    "topology": {"hosts": 3, "nics": 2, "rate_gbit": 0.2},
    "workload": {"bytes": 2 * 2**20, "iterations": 30, "channels": 2, "warmup": 1, "timeout_s": 60},
    "faults": [
        {"id": "f0", "kind": "link_down", "host": "h1", "nic": "eth1", "at": {"iteration": 5, "fraction": 0.5},
         "duration_s": 2.0},
    ],
    "hypothesis": {"stall_ms_max": 500.0},
    "arms": {"stock": {"expect": "deviates"}, "migrate": {"expect": "holds"}},
}  # fmt: skip

RECEIVE = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((sys.argv[1], 7007)); s.settimeout(float(sys.argv[2]))
print("ready", flush=True)
try:
    print(s.recv(100).decode(), flush=True)
except TimeoutError:
    print("nothing", flush=True)
"""
SEND = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(5):
    try:
        s.sendto(b"hello", (sys.argv[1], 7007))
    except OSError:
        pass
    time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.up(Topology(hosts=2, nics=2)) as made:
        yield made


def passes(lab: Lab, source: str, target: str, address: str) -> bool:
    """Whether a datagram gets from one host to the other."""
    receiver = lab.hosts[target].spawn([sys.executable, "-c", RECEIVE, address, "0.5"])
    assert receiver.stdout is not None
    assert receiver.stdout.readline() == b"ready\n"
    lab.hosts[source].run([sys.executable, "-c", SEND, address], timeout_s=10)
    answer = receiver.stdout.readline()
    receiver.wait(10)
    receiver.close()
    return answer == b"hello\n"


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_fault_cuts_its_nic_and_nothing_else_and_is_undone(lab: Lab, tmp_path: Path, kind: str) -> None:
    spec = FaultSpec.model_validate(
        {"id": "f", "kind": kind, "host": "h1", "nic": "eth1", "at": {"time_s": 0.0}}
        | ({"times": 1, "down_s": 1.0, "up_s": 1.0} if kind == "flap" else {"duration_s": 1.0})
    )
    carrier = "/sys/class/net/eth1/carrier"
    stack = ExitStack()
    with Journal(tmp_path / "journal.jsonl") as journal, stack:
        injector = Injector(lab.switch, journal, stack, lambda message: None)
        injector.arm(PlannedFault(spec, KINDS[kind]("h1-eth1")))
        assert passes(lab, "h0", "h1", "10.2.0.2")
        injector.strike("f", 0)
        assert not passes(lab, "h0", "h1", "10.2.0.2"), "into the NIC"
        assert not passes(lab, "h1", "h0", "10.2.0.1"), "out of the NIC"
        assert passes(lab, "h0", "h1", "10.1.0.2"), "the other rail"
        addresses = json.loads(lab.hosts["h1"].run(["ip", "-j", "addr", "show", "dev", "eth1"]).stdout)
        assert addresses[0]["addr_info"][0]["local"] == "10.2.0.2", "the host keeps its address"
        assert lab.hosts["h1"].read_text(carrier).strip() == ("1" if kind == "black_hole" else "0")
    assert lab.hosts["h1"].read_text(carrier).strip() == "1"
    assert passes(lab, "h0", "h1", "10.2.0.2")
    assert "r2cc_" not in lab.switch.run(["nft", "list", "tables"]).stdout
    phases = [line["phase"] for line in read(tmp_path / "journal.jsonl") if line["event"] == "fault"]
    assert phases == ["armed", "injected", "active", "reverted", "verified"]


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump({**EXPERIMENT, **changes}))
    return path


def start(file: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    command = [*CLI, "chaos", "run", str(file), "--out", str(out), *options]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)


def journal_of(out: Path) -> Path | None:
    return next(iter(out.glob("*/journal.jsonl")), None)


def wait_for(out: Path, running: subprocess.Popen[str], **wanted: Any) -> dict[str, Any]:
    """The first journal line that has all of `wanted`."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        path = journal_of(out)
        for line in read(path) if path else ():
            if all(line.get(key) == value for key, value in wanted.items()):
                return line
        assert running.poll() is None, running.communicate()
        time.sleep(0.02)
    raise AssertionError(f"no journal line with {wanted}")


def left_behind(controller: int) -> list[object]:
    """Labs that the controller owned and that are still up."""
    return [lab["name"] for lab in state.living() if lab["owner_pid"] == controller]


def assert_valid(path: Path) -> list[dict[str, Any]]:
    lines = list(read(path))
    assert [found for line in lines if (found := problems("journal", line))] == []
    return lines


@pytest.mark.build
@pytest.mark.parametrize("kind", ["link_down", "black_hole"])
def test_the_real_thing_is_exact_and_complete(tmp_path: Path, kind: str) -> None:
    """The whole command line: stock waits for the outage to end, R2CC does not, both are exact to the bit."""
    faults = [{**EXPERIMENT["faults"][0], "kind": kind}]
    running = start(write(tmp_path, faults=faults), tmp_path / "runs", "--void-ok", "--json")
    stdout, stderr = running.communicate(timeout=200)
    summary = json.loads(stdout)
    assert problems("summary", summary) == []
    assert summary["verdict"] in ("holds", "void"), stderr
    assert running.returncode == 0
    runs = {arm["name"]: arm["runs"][0] for arm in summary["arms"]}
    for run in runs.values():
        assert (run["completed"], run["iterations"], run["wrong_elements"]) == (True, 30, 0)
        assert (run["faults"][0]["hit"], run["faults"][0]["at_iteration"]) == (True, 5)
    assert runs["stock"]["faults"][0]["stall_ms"] > 1500, "stock stands still for the outage of 2 s"
    assert runs["migrate"]["faults"][0]["stall_ms"] < 1000
    assert runs["migrate"]["faults"][0]["iteration_ms"] < runs["stock"]["faults"][0]["iteration_ms"] / 2
    path = journal_of(tmp_path / "runs")
    assert path is not None
    lines = assert_valid(path)
    assert stderr.rstrip().splitlines()[-1] == str(path.parent)
    moved = [
        line for line in lines if line["event"] == "path" and line["state"] == "active" and line.get("epoch", 0) > 1
    ]
    assert {line["arm"] for line in moved} == {"migrate"}
    assert left_behind(running.pid) == []


@pytest.mark.build
def test_a_rank_that_dies_ends_everything_within_ten_seconds(tmp_path: Path) -> None:
    running = start(write(tmp_path), tmp_path / "runs", "--arms", "migrate", "--verbose")
    try:
        wait_for(tmp_path / "runs", running, event="iteration", index=2)
        rank = wait_for(tmp_path / "runs", running, event="command", name="rank2")
        os.kill(rank["pid"], signal.SIGKILL)
        died = time.monotonic()
        stdout, _ = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 3
    path = journal_of(tmp_path / "runs")
    assert path is not None
    lines = assert_valid(path)
    (end,) = [line for line in lines if line["event"] == "run_end"]
    assert time.monotonic() - died < 20
    assert end["reason"].startswith("rank2 on h2 was killed by SIGKILL")
    assert {end["exit_codes"][f"rank{rank}"] for rank in (0, 1)} == {3}, "the others ended by themselves, with an error"
    assert any(line["event"] == "error" for line in lines)
    last = max(line["t_ns"] for line in lines if line["event"] in ("progress", "iteration"))
    assert (end["t_ns"] - last) / 1e9 < 10
    assert "rank2 on h2 was killed by SIGKILL" in stdout
    assert left_behind(running.pid) == []


@pytest.mark.build
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_while_a_link_is_down(tmp_path: Path, number: signal.Signals) -> None:
    running = start(write(tmp_path), tmp_path / "runs", "--arms", "stock")
    try:
        wait_for(tmp_path / "runs", running, event="fault", phase="active")
        running.send_signal(number)
        running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 130
    path = journal_of(tmp_path / "runs")
    assert path is not None
    lines = assert_valid(path)
    assert [line["phase"] for line in lines if line["event"] == "fault"][-1] == "verified"
    assert next(line for line in lines if line["event"] == "run_end")["outcome"] == "interrupted"
    assert json.loads((path.parent / "summary.json").read_text())["exit_code"] == 130
    assert left_behind(running.pid) == []


@pytest.mark.build
def test_kill_9_of_the_controller_leaves_a_readable_journal_and_nothing_running(tmp_path: Path) -> None:
    running = start(write(tmp_path), tmp_path / "runs", "--arms", "migrate")
    try:
        wait_for(tmp_path / "runs", running, event="fault", phase="active")
        pids = [line["pid"] for line in read_now(tmp_path / "runs") if line["event"] == "command" and "pid" in line]
    finally:
        running.kill()
        running.communicate()
    deadline = time.monotonic() + 10
    while any(map(is_ours, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(pids) == 6
    assert not [pid for pid in pids if is_ours(pid)]
    assert left_behind(running.pid) == []
    assert len(read_now(tmp_path / "runs")) > 50


def read_now(out: Path) -> list[dict[str, Any]]:
    path = journal_of(out)
    assert path is not None
    return list(read(path))


def is_ours(pid: int) -> bool:
    try:
        return "r2cc_" in psutil.Process(pid).name()
    except psutil.NoSuchProcess:
        return False
