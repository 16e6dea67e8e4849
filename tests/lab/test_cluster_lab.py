"""Hosts over SSH as users have them: deploy, run an experiment, read its report; lab hosts, each with its own sshd.

One host's CLOCK_MONOTONIC is a day ahead of the others', as clocks of different machines are.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))
import ssh_lab

from chaos.record.journal import read
from harness.hosts import Host
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.schemas import problems

DAY_S = 86_400
AHEAD = ("unshare", "--time", "--monotonic", str(DAY_S))
pytestmark = [
    pytest.mark.timed,
    *ssh_lab.NEEDS,
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        shutil.which("unshare") is None or subprocess.run([*AHEAD, "true"], capture_output=True).returncode != 0,
        reason="no time namespaces here",
    ),
]

CLI = [sys.executable, "-c", "from harness.cli import main; main()"]
LIMIT_S = 120.0
SERVED = ("h0", "h1", "h2")
EXPERIMENT: dict[str, Any] = {
    "name": "over_ssh",
    "topology": {"hosts": 3, "nics": 2},
    "workload": {"bytes": 2 * 2**20, "iterations": 24, "channels": 2, "warmup": 1, "timeout_s": 60},
    "faults": [
        {"id": "f0", "kind": "link_down", "host": "h1", "nic": "eth1", "at": {"iteration": 5, "fraction": 0.5},
         "duration_s": 1.0},
    ],
    "arms": {"balance": {"expect": "holds"}},
}  # fmt: skip


@dataclass(frozen=True)
class Site:
    """A cluster, and a host from which it is controlled."""

    controller: Host
    inventory: Path
    folder: Path
    hosts: Mapping[str, Host]

    def r2cc(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command of the user's, on the controller."""
        result = self.controller.run([*CLI, *words], timeout_s=LIMIT_S, check=False)
        return subprocess.CompletedProcess(words, result.exit_code, result.stdout, result.stderr)

    def state(self, host: str) -> str:
        """Links and routes of a host."""
        script = "ip -o link show | sed 's/ state [A-Z]*//'; ip route show table all"
        return self.hosts[host].run(["sh", "-c", script]).stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("cluster")
    roles = {"data": "eth[0-1]", "management": "mgmt0"}
    entries = [
        {
            "name": f"n{index}",
            "address": ssh_lab.address_of(host),
            "nics": roles,
            "prefix": str(folder / f"prefix{index}"),
        }
        for index, host in enumerate(SERVED)
    ]
    with (
        Lab.up(Topology.load("hosts: 4\nnics: 2\nrate_gbit: 0.2\n")) as lab,
        ssh_lab.served(lab, folder, SERVED, entries, {"h1": AHEAD}) as inventory,
    ):
        yield Site(lab.hosts["h3"], inventory, folder, lab.hosts)


def test_deploy_run_and_report(site: Site) -> None:
    experiment = site.folder / "over_ssh.yaml"
    experiment.write_text(yaml.safe_dump(EXPERIMENT))
    early = site.r2cc("chaos", "run", str(experiment), "--inventory", str(site.inventory), "--out", str(site.folder))
    assert early.returncode == 2, early.stdout + early.stderr
    assert "nothing is deployed on n0, n1, n2" in early.stderr
    assert "r2cc deploy --inventory" in early.stderr

    deployed = site.r2cc("deploy", "--inventory", str(site.inventory))
    assert deployed.returncode == 0, deployed.stdout + deployed.stderr

    out = site.folder / "runs"
    ran = site.r2cc(
        "chaos", "run", str(experiment), "--inventory", str(site.inventory), "--out", str(out), "--void-ok", "--json"
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "without a backup" not in ran.stderr
    summary = json.loads(ran.stdout)
    assert (summary["bed"], summary["hardware"]["machines"]) == ("cluster", 3)
    (run,) = summary["arms"][0]["runs"]
    assert (run["completed"], run["iterations"], run["wrong_elements"]) == (True, 24, 0)
    (folder,) = out.iterdir()
    assert (folder / "report.html").stat().st_size > 1000
    _check_journal(folder)


def _check_journal(folder: Path) -> None:
    lines = list(read(folder / "journal.jsonl"))
    assert not [problem for line in lines for problem in problems("journal", line)]
    (start,) = [line for line in lines if line["event"] == "run_start"]
    ahead_ns = {host: clock["offset_ns"] for host, clock in start["clocks"].items()}
    assert abs(ahead_ns["n1"] - DAY_S * 10**9) < 10**8
    assert abs(ahead_ns["n0"]) < 10**8
    began = {line["host"]: line["start_ns"] for line in lines if line["event"] == "progress" and line["index"] == 5}
    ended = {line["host"]: line["end_ns"] for line in lines if line["event"] == "iteration" and line["index"] == 5}
    (struck,) = [line for line in lines if line["event"] == "fault" and line["phase"] == "injected"]
    assert struck["host"] == "n1"
    assert set(began) == {"n0", "n1", "n2"}
    # n1's too, though its clock is a day ahead: nobody ends an all-reduce before all have begun it, however busy the
    # machine is, so that what is left between them is what the clocks are apart.
    assert max(began.values()) < min(ended.values()) + 10**7
    last_ns = max(line["end_ns"] for line in lines if line["event"] == "iteration")
    assert max(began.values()) < struck["before_ns"] < last_ns
    downs = [line for line in lines if line["event"] == "link" and not line["up"]]
    assert {(line["host"], line["nic"]) for line in downs} == {("n1", "eth1")}
    assert abs(downs[0]["t_ns"] - struck["after_ns"]) < 10**9
    assert list((folder / "raw").iterdir())


def test_ctrl_c_while_something_is_broken_leaves_every_host_as_it_was(site: Site, tmp_path: Path) -> None:
    experiment = tmp_path / "long.yaml"
    (fault,) = EXPERIMENT["faults"]
    long = {"name": "long", "workload": {**EXPERIMENT["workload"], "iterations": 2000}}
    experiment.write_text(yaml.safe_dump({**EXPERIMENT, **long, "faults": [{**fault, "duration_s": 60.0}]}))
    words = ["chaos", "run", str(experiment), "--inventory", str(site.inventory), "--out", str(tmp_path / "runs")]
    before = site.state("h1")
    with (tmp_path / "said").open("wb") as file:
        process = site.controller.spawn([*CLI, *words, "--verbose"], stdout=file, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + LIMIT_S
        while b"f0: link_down on n1 eth1: active" not in (tmp_path / "said").read_bytes():
            assert process.poll() is None, (tmp_path / "said").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert site.state("h1") != before
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 130, (tmp_path / "said").read_text()
    finally:
        process.close()
    said = (tmp_path / "said").read_text()
    assert "Traceback" not in said
    assert "f0: link_down on n1 eth1: verified" in said
    assert site.state("h1") == before
    panic = site.r2cc("panic", "--inventory", str(site.inventory), "--dry-run", "--json")
    assert panic.returncode == 0, panic.stdout + panic.stderr
    assert [(host["clean"], host["records"]) for host in json.loads(panic.stdout)["hosts"]] == [(True, [])] * 3
