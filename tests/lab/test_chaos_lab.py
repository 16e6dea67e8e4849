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
from datagrams import know_each_other, passes
from strikes import assert_struck_in
from waits import until

from chaos.experiment.file import loads
from chaos.experiment.planned import PlannedFault, planned_faults
from chaos.faults.kinds.load import HELPER
from chaos.faults.registry import kinds
from chaos.record.journal import Journal, read
from chaos.run.actors import Actors
from chaos.run.injector import Injector
from harness.lab import state
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.schemas import problems

pytestmark = [pytest.mark.timed, pytest.mark.lab, pytest.mark.timeout(240)]

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


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.up(Topology(hosts=2, nics=2)) as made:
        yield made


TIMELINE = """
name: one
topology: {hosts: 2, nics: 2}
workload: {iterations: 1}
faults:
  - {id: f, kind: %s, at: {time_s: 0.0}, %s}
arms: {migrate: {expect: any}}
"""
ONE_NIC = "host: h1, nic: eth1, duration_s: 1.0"
CUTS = {
    "link_down": (ONE_NIC, "into out", "0"),
    "address_removed": (ONE_NIC, "into out", "1"),
    "black_hole": (ONE_NIC, "into out", "1"),
    "one_way": (f"{ONE_NIC}, direction: in", "into", "1"),
    "loss": (f"{ONE_NIC}, percent: 99.999", "into out", "1"),
    "flap": ("host: h1, nic: eth1, times: 1, down_s: 1.0, up_s: 1.0", "into out", "0"),
    "rail_down": ("rail: 1, duration_s: 1.0", "into out", "0"),
    "rate": (f"{ONE_NIC}, fraction: 0.5", "", "1"),
    "queue_full": (ONE_NIC, "perhaps", "1"),
    "busy_cores": ("host: h1, duration_s: 1.0", "", "1"),
}
"""What each says besides its kind, what of h1's eth1 it cuts, and the carrier while it lasts."""


def planned(kind: str, words: str, lab: Lab) -> PlannedFault:
    experiment = loads(TIMELINE % (kind, words), Path("one.yaml"))
    (fault,) = planned_faults(experiment, lab.nics)
    return fault


def injector_of(lab: Lab, journal: Journal, stack: ExitStack, ranks: list[Any]) -> Injector:
    return Injector(Actors(lab.switch, lab.hosts, lambda rank: ranks[rank]), journal, stack, lambda message: None)


def queues(lab: Lab) -> list[str]:
    return [host.run(["tc", "-j", "-d", "qdisc", "show"]).stdout for host in (lab.switch, *lab.hosts.values())]


def test_every_kind_that_acts_on_hosts_is_tried_here() -> None:
    inside = {"delay", "corrupt", "nic_gone", "qp_error", "side_channel_lost", "side_channel_late", "controller_lost"}
    inside |= {"socket_error", "verbs_error", "lost_completion", "slow_qp", "async_event"}
    """tests/lab/test_faults_lab.py, test_socket_error_lab.py, test_verbs_error_lab.py, tests/vm/test_vm_faults.py."""
    some = {"tcp_lost", "udp_lost", "big_packets_lost"}
    """tests/lab/test_faults_some_lab.py."""
    assert set(CUTS) | {"side_flood", "stop", "kill", "late", "clock_jump"} | inside | some == set(kinds())


@pytest.mark.parametrize("kind", sorted(CUTS))
def test_a_fault_does_what_it_says_and_nothing_else_and_is_undone(lab: Lab, tmp_path: Path, kind: str) -> None:
    words, cut, carrier_then = CUTS[kind]
    carrier = "/sys/class/net/eth1/carrier"
    before = queues(lab)
    stack = ExitStack()
    with Journal(tmp_path / "journal.jsonl") as journal, stack:
        injector = injector_of(lab, journal, stack, [])
        injector.arm(planned(kind, words, lab))
        know_each_other(lab)
        assert passes(lab, "h0", "h1", "10.2.0.2")
        assert passes(lab, "h1", "h0", "10.2.0.1")
        injector.strike("f", 0)
        if cut != "perhaps":
            assert passes(lab, "h0", "h1", "10.2.0.2") is ("into" not in cut), "into the NIC"
            assert passes(lab, "h1", "h0", "10.2.0.1") is ("out" not in cut), "out of the NIC"
        assert passes(lab, "h0", "h1", "10.1.0.2"), "the other rail"
        addresses = lab.hosts["h1"].run(["ip", "-br", "addr", "show", "dev", "eth1"]).stdout
        assert ("10.2.0.2/" in addresses) is (kind != "address_removed"), "the host keeps its address"
        assert lab.hosts["h1"].read_text(carrier).strip() == carrier_then
    assert lab.hosts["h1"].read_text(carrier).strip() == "1"
    assert passes(lab, "h0", "h1", "10.2.0.2")
    assert "r2cc_" not in lab.switch.run(["nft", "list", "tables"]).stdout
    assert [tidy(text) for text in queues(lab)] == [tidy(text) for text in before]
    lines = [line for line in read(tmp_path / "journal.jsonl") if line["event"] == "fault"]
    assert [line["phase"] for line in lines] == ["armed", "injected", "active", "reverted", "verified"]
    assert helpers_left(lab) == []


def tidy(queues: str) -> Any:
    """Rates, depths and limits; not how long a packet would wait, which tc computes from rounded numbers."""
    return [(entry["dev"], entry["kind"], {**entry["options"], "lat": 0}) for entry in json.loads(queues)]


def helpers_left(lab: Lab) -> list[str]:
    """Of this lab: each host sees its own processes, and other labs may have such helpers, too."""
    listed = "\n".join(host.run(["ps", "ax", "-o", "args"]).stdout for host in lab.hosts.values())
    return [line for line in listed.splitlines() if "pressure.py" in line]


def test_a_flood_reaches_sockets_that_nobody_sends_to_and_ends(lab: Lab, tmp_path: Path) -> None:
    listen = "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('10.2.0.2', 7008)); s.settimeout(5);"
    stack = ExitStack()
    with Journal(tmp_path / "journal.jsonl") as journal, stack:
        injector = injector_of(lab, journal, stack, [])
        injector.arm(planned("side_flood", "host: h1, duration_s: 1.0", lab))
        injector.strike("f", 0)
        got = lab.hosts["h1"].run([sys.executable, "-c", f"{listen} print(len(s.recv(100)))"], timeout_s=10)
    assert got.stdout == "64\n"
    assert helpers_left(lab) == []


def test_half_the_rate_halves_the_throughput_and_goes_back(lab: Lab, tmp_path: Path) -> None:
    """Counted in bytes over half a second of datagrams. Only the slow ones have a bound: a busy machine sends fewer of
    the others, but never so few."""
    stack = ExitStack()
    with Journal(tmp_path / "journal.jsonl") as journal, stack:
        injector = injector_of(lab, journal, stack, [])
        injector.arm(planned("rate", f"{ONE_NIC}, fraction: 0.1", lab))
        blast = [sys.executable, "-IS", str(HELPER), "fill", "--from", "10.2.0.2", "--seconds", "0.5"]
        full = sent_during(lab, blast)
        injector.strike("f", 0)
        slow = sent_during(lab, blast)
        injector.heal("f")
        again = sent_during(lab, blast)
    a_second = 10**9 / 8
    assert slow < 0.1 * 0.5 * a_second * 1.5
    assert full > 2 * slow
    assert again > 2 * slow


def sent_during(lab: Lab, argv: list[str]) -> int:
    counter = "/sys/class/net/eth1/statistics/tx_bytes"
    before = int(lab.hosts["h1"].read_text(counter))
    lab.hosts["h1"].run(argv, timeout_s=20)
    return int(lab.hosts["h1"].read_text(counter)) - before


def test_a_rank_is_stopped_lives_on_and_dies(lab: Lab, tmp_path: Path) -> None:
    rank = lab.hosts["h1"].spawn(["sleep", "60"])
    stack = ExitStack()
    with Journal(tmp_path / "journal.jsonl") as journal, stack:
        injector = injector_of(lab, journal, stack, [None, rank])
        stop = planned("stop", "rank: 1, duration_s: 1.0", lab)
        kill = planned("kill", "rank: 1", lab)
        injector.arm(stop)
        injector.arm(PlannedFault(kill.spec.model_copy(update={"id": "k"}), kill.fault, (), "h1"))
        injector.strike("f", 0)
        assert psutil.Process(rank.pid).status() == psutil.STATUS_STOPPED
        injector.heal("f")
        assert psutil.Process(rank.pid).status() != psutil.STATUS_STOPPED
        until(lambda: psutil.Process(rank.pid).status() == psutil.STATUS_SLEEPING)  # it wakes up before
        injector.strike("k", 0)
        assert rank.wait(60) == -signal.SIGKILL


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
        assert run["faults"][0]["hit"]
    assert runs["stock"]["faults"][0]["stall_ms"] > 1500, "stock stands still for the outage of 2 s"
    assert runs["migrate"]["faults"][0]["stall_ms"] < 1000
    assert runs["migrate"]["faults"][0]["longest_ms"] < runs["stock"]["faults"][0]["longest_ms"] / 2
    path = journal_of(tmp_path / "runs")
    assert path is not None
    lines = assert_valid(path)
    for arm, run in runs.items():
        assert_struck_in([line for line in lines if line["arm"] == arm], 5, run["faults"][0]["at_iteration"])
    assert stderr.rstrip().splitlines()[-1] == str(path.parent)
    moved = [
        line for line in lines if line["event"] == "path" and line["state"] == "active" and line.get("epoch", 0) > 1
    ]
    assert {line["arm"] for line in moved} == {"migrate"}
    assert left_behind(running.pid) == []


@pytest.mark.build
def test_ranks_that_lose_every_nic_say_where_and_why(tmp_path: Path) -> None:
    """The shipped experiment: what it asks the errors to mention is in the net library's own words."""
    running = start(ROOT / "experiments/many_faults/all_for_good.yaml", tmp_path, "--arms", "balance", "--json")
    stdout, stderr = running.communicate(timeout=120)
    (run,) = json.loads(stdout)["arms"][0]["runs"]
    outcomes = {check["name"].partition("(")[0]: check["outcome"] for check in run["checks"]}
    assert outcomes["errors_mention"] == outcomes["exact"] == "holds", stderr
    assert not run["completed"]


@pytest.mark.build
def test_a_rank_that_dies_ends_everything(tmp_path: Path) -> None:
    running = start(write(tmp_path), tmp_path / "runs", "--arms", "migrate", "--verbose")
    try:
        wait_for(tmp_path / "runs", running, event="iteration", index=2)
        rank = wait_for(tmp_path / "runs", running, event="command", name="rank2")
        os.kill(rank["pid"], signal.SIGKILL)
        stdout, _ = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 3
    path = journal_of(tmp_path / "runs")
    assert path is not None
    lines = assert_valid(path)
    (end,) = [line for line in lines if line["event"] == "run_end"]
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
    assert len(pids) == 6
    until(lambda: not any(map(is_ours, pids)), "a rank lives on")  # the lab's keeper ends the ranks first, then the lab
    until(lambda: not left_behind(running.pid), "the lab is up")
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
