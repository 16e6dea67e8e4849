"""Guests as hosts over SSH: each with its own sshd, host key and clock, and experiments from an inventory file."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import yaml

from chaos.record.journal import read
from harness.errors import InfraError, SshError
from harness.hosts.ssh.hosts import SshHost, ssh_hosts
from harness.schemas import problems
from harness.sites.inventory_file import load
from harness.vmlab.lab import VmLab
from tests.vm.conftest import ENGINE
from tests.vm.slowness import slowness

pytestmark = [
    pytest.mark.vm,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(ENGINE == "uml", reason="guests of User Mode Linux have no network to this machine for SSH"),
]

CLI = [sys.executable, "-c", "from harness.cli import main; main()"]
FACTS = (Path(__file__).parent / "qp_facts.py").read_text()
LIMIT_S = 300.0
TRIES, BUSY = 3, 2.0
TOLD = ("netlink", "gid_change", "port_err")
"""Causes of a NIC's end that its own kernel told: no guess of a probe's."""
TOO_SLOW = "still ran after"
"""A guest on a busy machine answers later than other machines do: the run is `failed`, which says nothing of R2CC."""
RATE_BPS = 20_000_000
"""What emulation can carry, and leaves it time to react."""
WORKLOAD: dict[str, Any] = {
    "op": "allreduce",
    "warmup": 1,
    "channels": 2,
    "chunk_bytes": 8192,
    "slots": 2,
    "idle_us": 2000,
    "timeout_s": 60,
}
BYTES = {"ib": 2 * 2**20, "socket": 8 * 2**20}
"""Two seconds an iteration: it takes one to give a guest a command over SSH while a rank keeps its processor busy."""
ITERATIONS = 8
MOST_ITERATIONS = 40
"""On a busy machine a fault takes longer to get there, and the job must still run."""
HIT = 3
AT = {"iteration": HIT, "fraction": 0.25}
ADDRESS = {"id": "f0", "kind": "address_removed", "host": "h0", "nic": "eth1", "at": AT, "duration_s": 3.0}
LINK = {"id": "f0", "kind": "link_down", "host": "h1", "nic": "eth0", "at": AT, "duration_s": 2.0}
STOPPED = {"id": "f0", "kind": "stop", "rank": 1, "at": AT, "duration_s": 1.5}


@pytest.fixture(scope="module")
def hosts(lab: VmLab) -> Iterator[dict[str, SshHost]]:
    with ssh_hosts(host.target for host in load(lab.inventory_file)) as reached:
        yield reached


def r2cc(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CLI, *words], capture_output=True, text=True, timeout=LIMIT_S, check=False)


def test_all_guests_answer(lab: VmLab) -> None:
    done = r2cc("hosts", "check", "--inventory", str(lab.inventory_file), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [host["ok"] for host in json.loads(done.stdout)["hosts"]] == [True, True]


def test_each_guest_has_a_key_of_its_own_and_no_other_is_taken(lab: VmLab, tmp_path: Path) -> None:
    first, second = (host.target for host in load(lab.inventory_file))
    known = (lab.folder / "known_hosts").read_text().splitlines()
    assert len({line.split()[2] for line in known}) == 2
    swapped = tmp_path / "known_hosts"
    swapped.write_text(f"{known[0].split()[0]} {' '.join(known[1].split()[1:])}\n")
    wrong = [replace(each, known_hosts=(swapped,)) for each in (first, second)]
    with ssh_hosts(wrong) as reached:
        for host, kind in (("h0", "changed_host_key"), ("h1", "unknown_host_key")):
            with pytest.raises(SshError) as caught:
                reached[host].run(["true"], timeout_s=20)
            assert caught.value.kind == kind


def test_files_go_both_ways_and_stay_in_their_guest(hosts: dict[str, SshHost], tmp_path: Path) -> None:
    there, sent, back = "/tmp/over ssh", tmp_path / "sent", tmp_path / "back"
    sent.write_bytes(bytes(range(256)) * 4096)
    hosts["h0"].put(sent, there)
    hosts["h0"].get(there, back)
    assert back.read_bytes() == sent.read_bytes()
    assert hosts["h1"].run(["test", "-e", there], check=False).exit_code == 1


def test_guests_reach_nothing_of_this_machine(lab: VmLab, hosts: dict[str, SshHost]) -> None:
    port = load(lab.inventory_file)[1].target.port
    for where in ("10.251.0.254", "10.251.0.2"):
        tried = ["python3", "-c", f"import socket; socket.create_connection(('{where}', {port}), 3)"]
        assert hosts["h0"].run(tried, timeout_s=30, check=False).exit_code == 1


def test_a_guest_that_is_cut_off_goes_on_and_is_reached_again(lab: VmLab, hosts: dict[str, SshHost]) -> None:
    counting = "n=0; while :; do n=$((n + 1)); echo $n >/tmp/count.new; mv /tmp/count.new /tmp/count; sleep 0.1; done"
    process = hosts["h1"].spawn(["sh", "-c", counting])
    try:
        lab.cut_ssh("h1")
        hurried = replace(load(lab.inventory_file)[1].target, connect_timeout_s=3.0)
        with ssh_hosts([hurried]) as reached, pytest.raises(SshError):
            reached["h1"].run(["true"])
        assert hosts["h0"].run(["hostname"]).stdout == "h0\n"
        before = int(lab.hosts["h1"].read_text("/tmp/count"))
        assert int(lab.hosts["h1"].run(["sh", "-c", "sleep 1; cat /tmp/count"]).stdout) > before
        lab.cut_ssh("h1", cut=False)
        assert hosts["h1"].run(["hostname"], timeout_s=60).stdout == "h1\n"
    finally:
        lab.cut_ssh("h1", cut=False)
        process.close()


def test_verbs_of_a_file_see_the_soft_roce_device(hosts: dict[str, SshHost]) -> None:
    facts = json.loads(hosts["h0"].run(["python3", "-c", FACTS, "rxe1"], timeout_s=60).stdout)
    assert ip_address(facts["gids"]["1"]) == ip_address("::ffff:10.2.0.1")
    assert facts["port_state"] == "PORT_ACTIVE"
    assert facts["qp_states"] == ["RESET", "INIT", "ERR"]


def test_deploy_then_experiments_over_rdma_and_sockets(lab: VmLab, tmp_path: Path) -> None:
    inventory = str(lab.inventory_file)
    deployed = r2cc("deploy", "--inventory", inventory)
    assert deployed.returncode == 0, deployed.stdout + deployed.stderr
    for nic in lab.nics:
        lab.limit(nic.switch_port, RATE_BPS)

    iterations = min(math.ceil(ITERATIONS * slowness(lab)), MOST_ITERATIONS)
    over_rdma = ran(lab, tmp_path, "ib", ADDRESS, iterations)
    assert metric(over_rdma["run"], "failovers") >= 1
    (started,) = {tuple(line["nics"]) for line in over_rdma["lines"] if line["event"] == "bench_start"}
    assert started == ("rxe0", "rxe1")
    frozen = {(line["host"], line["nic"]) for line in over_rdma["lines"] if line.get("state") == "frozen"}
    assert ("h0", "eth1") in frozen, "path lines name NICs, not devices"

    ran(lab, tmp_path, "socket", STOPPED, iterations)
    without_a_link = ran(lab, tmp_path, "socket", LINK, iterations)
    assert metric(without_a_link["run"], "failovers") >= 1


def ran(lab: VmLab, folder: Path, net: str, fault: dict[str, Any], iterations: int) -> dict[str, Any]:
    """The only run of an experiment on `--inventory`; exact, complete, and with times that make sense on our clock."""
    inventory = str(lab.inventory_file)
    name = f"{net}_{fault['kind']}"
    experiment, out = folder / f"{name}.yaml", folder / f"runs-{name}"
    document = {
        "name": f"of_a_file_{name}",
        "topology": {"hosts": 2, "nics": 2},
        "workload": {**WORKLOAD, "iterations": iterations, "net": net, "bytes": BYTES[net]},
        "faults": [fault],
        "arms": {"migrate": {"expect": "holds"}},
    }
    experiment.write_text(yaml.safe_dump(document))
    for _ in range(TRIES):
        done = r2cc("chaos", "run", str(experiment), "--inventory", inventory, "--out", str(out), "--void-ok", "--json")
        too_slow = done.returncode == InfraError.exit_code and TOO_SLOW in done.stdout
        if not too_slow:
            break
    waiting = os.getloadavg()[0] / len(os.sched_getaffinity(0))
    if too_slow and waiting > BUSY:
        pytest.skip(f"{waiting:.1f} programs wait for each core here: commands over SSH ran out of time in a guest")
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = json.loads(done.stdout)["arms"][0]["runs"]
    assert (run["completed"], run["iterations"], run["wrong_elements"]) == (True, iterations, 0)
    (struck,) = run["faults"]
    assert struck["hit"]
    lines = list(read(max(out.iterdir()) / "journal.jsonl"))
    assert not [problem for line in lines for problem in problems("journal", line)]
    check_times(lines, fault)
    return {"run": run, "lines": lines}


def check_times(lines: list[dict[str, Any]], fault: dict[str, Any]) -> None:
    """Guests' clocks are not ours; the journal's times are: what follows from the other side's doing comes after it."""
    (start,) = [line for line in lines if line["event"] == "run_start"]
    assert all(abs(clock["offset_ns"]) > 10**9 for clock in start["clocks"].values()), start["clocks"]
    slack_ns = 10**7 + max(clock["error_ns"] for clock in start["clocks"].values())
    began = {line["host"]: line["start_ns"] for line in lines if line["event"] == "progress" and line["index"] == HIT}
    struck, undone = (phase(lines, name) for name in ("injected", "reverted"))
    assert set(began) == {"h0", "h1"}
    assert max(began.values()) - slack_ns < struck["before_ns"], "ours after theirs"
    if fault is STOPPED:
        ends = [line["end_ns"] for line in lines if line["event"] == "iteration" and line["rank"] == fault["rank"]]
        stood = range(struck["after_ns"] + slack_ns, undone["before_ns"] - slack_ns)
        assert not [end for end in ends if end in stood], "a rank that is stopped ends no iteration"
        return
    told = [line["t_ns"] for line in lines if line["event"] == "nic" and line["cause"] in TOLD and is_of(line, fault)]
    assert min(told) > struck["before_ns"] - slack_ns, "theirs after ours"


def phase(lines: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(line for line in lines if line["event"] == "fault" and line["phase"] == name)


def is_of(line: dict[str, Any], fault: dict[str, Any]) -> bool:
    return (line["host"], line["nic"], line["state"]) == (fault["host"], fault["nic"], "down")


def metric(run: dict[str, Any], name: str) -> Any:
    return next(m["value"] for m in run["metrics"] if m["name"] == name)
