"""Hosts that are pods: deploy, break, heal and panic through `kubectl exec`; the kubectl is a stand-in over lab hosts.

Pods have no root: ranks run as another user, without a capability. NICs are broken by agents on the node, which is this
machine: they have to find the network of a pod by themselves.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from chaos.deadman.record import shell_text
from chaos.record.journal import read
from harness.build import build_net
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.progress import silent
from harness.schemas import problems

pytestmark = [
    pytest.mark.lab,
    pytest.mark.build,
    pytest.mark.timeout(240),
    pytest.mark.skipif(os.geteuid() != 0, reason="entering a lab host as another user needs root"),
]
STANDIN = Path(__file__).parent / "kubectl"
CLI = [sys.executable, "-c", "from harness.cli import main; main()"]
REPO = Path(__file__).parents[2]
LIMIT_S = 120.0
NOBODY = 65534
PODS = ("h0", "h1")
EXPERIMENT: dict[str, Any] = {
    "name": "in_pods",
    "topology": {"hosts": 2, "nics": 2},
    "workload": {"bytes": 2 * 2**20, "iterations": 100000, "seconds": 20, "channels": 2, "warmup": 1, "timeout_s": 60},
    "faults": [
        {"id": "halt", "kind": "stop", "rank": 1, "at": {"iteration": 3}, "duration_s": 2.0},
        {"id": "cut", "kind": "link_down", "host": "h1", "nic": "eth1", "duration_s": 2.0,
         "at": {"after": "halt", "event": "reverted", "ms": 100}},
    ],
    "arms": {"balance": {"expect": "holds"}},
}  # fmt: skip
AGENT = 'mount --make-rprivate / && mkdir -p /run/r2cc && mount -t tmpfs -o mode=755 none /run/r2cc && exec sh -c "$1"'
"""The node's /run/r2cc is its own: there are two nodes on this machine, and others' tests."""


@dataclass
class Site:
    """Pods worker-0 and worker-1 in namespace `train`, an agent in namespace `r2cc` on the node of each."""

    lab: Lab
    folder: Path
    agents: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        path = f"{STANDIN}:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "R2CC_STANDIN": f"{self.folder}/pods.json", "PYTHONPATH": str(REPO)}

    @property
    def inventory(self) -> list[str]:
        return ["--inventory", f"{self.folder}/pods.yaml"]

    def r2cc(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*CLI, *words], env=self.env, capture_output=True, text=True, timeout=LIMIT_S)

    def is_up(self, host: str, nic: str) -> bool:
        (link,) = json.loads(self.lab.hosts[host].run(["ip", "-j", "link", "show", nic]).stdout)
        return "UP" in link["flags"]

    def start_agent(self, index: int, programs: Path | None = None) -> None:
        """`programs`: a folder of such as it is to have before all others."""
        env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"} if programs else None
        words = ["unshare", "--mount", "sh", "-c", AGENT, "agent", shell_text("agent.sh")]
        log = self.folder / f"agent{index}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(words, stdout=file, stderr=file, env=env)
        assert within(lambda: "r2cc agent: ready" in log.read_text()), log.read_text()
        self.agents[f"agent-{index}"] = process
        labels = "app.kubernetes.io/name=r2cc-agent"
        self.pods[f"r2cc/agent-{index}"] = where(index) | {"pid": process.pid, "enter": ["--mount"], "labels": labels}
        (self.folder / "pods.json").write_text(json.dumps(self.pods))

    def on_node(self, index: int, *argv: str) -> str:
        words = ["nsenter", "--target", str(self.agents[f"agent-{index}"].pid), "--mount", *argv]
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=LIMIT_S).stdout


def where(index: int) -> dict[str, Any]:
    return {"node": f"node{index}", "hostIP": f"192.0.2.{index + 1}", "podIP": f"10.250.0.{index + 1}"}


def within(what: Callable[[], bool], limit_s: float = 60.0) -> bool:
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.1)
    return False


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Which others may enter, as the folders of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="r2cc-pods-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[Site]:
    build_net(progress=silent)
    with Lab.up(Topology.load("hosts: 2\nnics: 2\nrate_gbit: 0.2\n")) as lab, ExitStack() as running:
        made = Site(lab, folder)
        for index, host in enumerate(PODS):
            home = folder / f"home{index}"
            home.mkdir()
            os.chown(home, NOBODY, NOBODY)
            first = lab.hosts[host].spawn(["sleep", "600"])
            running.callback(first.close)
            own = {"pid": first.pid, "enter": ["--net", "--mount", "--pid"], "uid": NOBODY, "env": {"HOME": str(home)}}
            made.pods[f"train/worker-{index}"] = where(index) | own
            made.start_agent(index)
        running.callback(end_all, made)
        inventory = {
            "schema": 1,
            "pods": {"namespace": "train", "container": "main", "agents": "r2cc"},
            "defaults": {"nics": {"data": "eth[0-1]", "management": "mgmt0"}},
            "hosts": [{"name": "worker-[0-1]"}],
        }
        (folder / "pods.yaml").write_text(yaml.safe_dump(inventory))
        yield made


def end_all(site: Site) -> None:
    for process in site.agents.values():
        process.terminate()
        process.wait(LIMIT_S)


def test_deploy_and_run(site: Site) -> None:
    checked = site.r2cc("hosts", "check", *site.inventory, "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    deployed = site.r2cc("deploy", *site.inventory)
    assert deployed.returncode == 0, deployed.stdout + deployed.stderr
    experiment, out = site.folder / "in_pods.yaml", site.folder / "runs"
    experiment.write_text(yaml.safe_dump(EXPERIMENT))
    ran = site.r2cc("chaos", "run", str(experiment), *site.inventory, "--out", str(out), "--void-ok", "--json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (run,) = json.loads(ran.stdout)["arms"][0]["runs"]
    assert (run["completed"], run["wrong_elements"]) == (True, 0)
    (folder,) = out.iterdir()
    lines = list(read(folder / "journal.jsonl"))
    assert not [problem for line in lines for problem in problems("journal", line)]
    for name in ("halt", "cut"):
        phases = [line["phase"] for line in lines if line["event"] == "fault" and line["id"] == name]
        assert phases == ["armed", "injected", "active", "reverted", "verified"]
    downs = [line for line in lines if line["event"] == "link" and not line["up"]]
    assert {(line["host"], line["nic"]) for line in downs} == {("worker-1", "eth1")}
    at = {line["phase"]: line for line in lines if line["event"] == "fault" and line["id"] == "halt"}
    surely = at["reverted"]["before_ns"] - at["injected"]["after_ns"]  # kubectl may take a while for each
    # The stop may fall between two iterations: the others wait for the next one then, before it begins.
    ends = sorted(line["end_ns"] for line in lines if line["event"] == "iteration" and line["rank"] == 0)
    longest = max(after - before for before, after in pairwise(ends))
    assert longest > max(0.7 * surely, 3e8), "a stopped rank is seen by the others"


def test_what_pods_cannot_carry_is_said(site: Site) -> None:
    faults = site.r2cc("chaos", "faults", *site.inventory, "--json")
    assert faults.returncode == 0, faults.stderr
    kinds = {each["kind"]: each["hosts"]["worker-0"] for each in json.loads(faults.stdout)["faults"]}
    assert kinds["link_down"]["supported"], "the agent may, whatever the pod may"
    assert kinds["controller_lost"]["why"] == ["it is not reached over SSH"]
    refused = site.r2cc("run", "bench", "--launcher", "mpirun", *site.inventory)
    assert (refused.returncode, "are pods, which have no sshd" in refused.stderr) == (2, True), refused.stderr
    gone = site.folder / "gone.yaml"
    gone.write_text((site.folder / "pods.yaml").read_text().replace("worker-[0-1]", "worker-[0-2]"))
    absent = site.r2cc("chaos", "faults", "--inventory", str(gone))
    assert (absent.returncode, "worker-2: pod train/worker-2 (main) does not run" in absent.stderr) == (3, True)


def test_the_node_heals_without_controller_and_without_timer(site: Site) -> None:
    """The controller is killed; the timer is killed, as with a container that ends; a new timer of the agent heals."""
    break_and_leave(site)
    (record,) = site.on_node(1, "sh", "-c", "echo /run/r2cc/*/armed/cut-*").split()
    timer = int(site.on_node(1, "cat", f"{record}/pid"))
    os.kill(timer, signal.SIGKILL)
    assert not site.is_up("h1", "eth1")
    site.on_node(1, "sh", "-c", f"echo 0 >{record}/deadline")  # its time to live is over, and nobody is there to see it
    assert within(lambda: site.is_up("h1", "eth1"))
    # The link is up a moment before it is written that it was undone.
    assert within(lambda: bool(site.on_node(1, "sh", "-c", f"cat {record}/undone 2>/dev/null || true")))
    assert site.on_node(1, "cat", f"{record}/undone").startswith("timer at ")
    panic = site.r2cc("panic", *site.inventory, "--json")
    assert panic.returncode == 0, panic.stdout + panic.stderr
    assert site.on_node(1, "sh", "-c", f"ls -d {record} 2>/dev/null || true") == ""


def test_an_agent_that_is_deleted_undoes_what_is_armed(site: Site) -> None:
    break_and_leave(site)
    site.agents["agent-1"].terminate()
    assert within(lambda: site.is_up("h1", "eth1"))
    assert site.agents["agent-1"].wait(LIMIT_S) == 0
    site.start_agent(1)


def test_an_agent_tries_again_where_the_process_with_that_network_is_gone(site: Site, tmp_path: Path) -> None:
    """It may find the network by a rank that ends just then."""
    failed = tmp_path / "failed"
    program = tmp_path / "nsenter"
    program.write_text(
        f'#!/bin/sh\n[ -e {failed} ] || {{ : >{failed}; exit 1; }}\nexec {shutil.which("nsenter")} "$@"\n'
    )
    program.chmod(0o755)
    site.agents["agent-1"].terminate()
    assert site.agents["agent-1"].wait(LIMIT_S) == 0
    site.start_agent(1, tmp_path)
    break_and_leave(site)
    assert not failed.exists()
    site.agents["agent-1"].terminate()
    assert within(lambda: site.is_up("h1", "eth1"))
    assert site.agents["agent-1"].wait(LIMIT_S) == 0
    assert failed.exists()
    site.start_agent(1)


def break_and_leave(site: Site) -> None:
    """A controller that is killed while h1's eth1 is down for a minute."""
    experiment = site.folder / "long.yaml"
    cut = {**EXPERIMENT["faults"][1], "at": {"iteration": 3}, "duration_s": 60.0}
    workload = {**EXPERIMENT["workload"], "seconds": 200}
    experiment.write_text(yaml.safe_dump({**EXPERIMENT, "faults": [cut], "workload": workload}))
    words = [*CLI, "chaos", "run", str(experiment), *site.inventory, "--out", str(site.folder / "long"), "--void-ok"]
    said = site.folder / "said"
    with said.open("wb") as file:
        controller = subprocess.Popen(words, env=site.env, stdout=file, stderr=file)
    try:
        assert within(lambda: not site.is_up("h1", "eth1"), LIMIT_S), said.read_text()
    finally:
        controller.kill()
        controller.wait(LIMIT_S)
