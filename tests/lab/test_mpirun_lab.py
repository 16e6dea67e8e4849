"""Jobs on hosts over SSH by their launchers: Open MPI and our own connections; lab hosts, each with its own sshd."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
sys.path.insert(0, str(Path(__file__).parent))
import ssh_lab
from torch_python import mended_python, needs_torch

from chaos.record.journal import read
from harness.build import build_net
from harness.hosts import Host, Process
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.progress import silent
from harness.schemas import problems

pytestmark = [*ssh_lab.NEEDS, pytest.mark.build, pytest.mark.timeout(120)]
needs_mpirun = pytest.mark.skipif(
    shutil.which("mpirun") is None, reason="no mpirun (apt-get install --no-install-recommends openmpi-bin)"
)
both = pytest.mark.parametrize("launcher", ["ssh", pytest.param("mpirun", marks=needs_mpirun)])

REPO = Path(__file__).parents[2]
CLI = [sys.executable, "-c", "from harness.cli import main; main()"]
SERVED = ("h0", "h1", "h2", "h3")
LIMIT_S = 60.0
SMALL = ("--bytes", "1000004", "--iterations", "5")
LONG = ("--bytes", "1000004", "--iterations", "100000")


@dataclass(frozen=True)
class Site:
    """A cluster, the host from which it is used, and the hosts themselves, to look at what runs there."""

    controller: Host
    hosts: dict[str, Host]
    folder: Path
    keepers: dict[str, int]
    """Of each host a process that lives in it."""

    def argv(self, *words: str, kind: str = "bench", hosts: str = "") -> list[str]:
        return [*CLI, "run", kind, "--inventory", f"{self.folder}/inventory.yaml{hosts}", "--mode", "1", *words]

    def run(self, *words: str, **what: str) -> subprocess.CompletedProcess[str]:
        result = self.controller.run(
            self.argv(*words, **what), env={"PYTHONPATH": str(REPO)}, timeout_s=LIMIT_S, check=False
        )
        return subprocess.CompletedProcess(words, result.exit_code, result.stdout, result.stderr)

    def ranks(self) -> dict[str, list[int]]:
        """Processes of the bench, by the host whose network they have."""
        found: dict[str, list[int]] = {name: [] for name in self.hosts}
        names = {_network(pid): name for name, pid in self.keepers.items()}
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.name() == "r2cc_bench" and (name := names.get(_network(process.pid))):
                    found[name].append(process.pid)
        return found


def _network(pid: int) -> int:
    return Path(f"/proc/{pid}/ns/net").stat().st_ino


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """What `r2cc deploy` makes of a build, by hand: hosts of the lab share their files."""
    folder = tmp_path_factory.mktemp("launch")
    made = build_net(progress=silent)
    current = folder / "prefix" / "current"
    programs = {"bin/r2cc_bench": made.bench, "bin/r2cc_sampler": made.sampler, "lib/libr2cc_net.so": made.library}
    for name, file in programs.items():
        (current / name).parent.mkdir(parents=True, exist_ok=True)
        (current / name).symlink_to(file)
    (current / "share").mkdir()
    (current / "share" / "harness").symlink_to(REPO / "harness")
    shutil.copy(made.bench.with_name("build.json"), current)
    entries = [
        {
            "name": f"n{index}",
            "address": ssh_lab.address_of(host),
            "nics": {"data": "eth0", "management": "mgmt0"},
            "prefix": str(folder / "prefix"),
        }
        for index, host in enumerate(SERVED)
    ]
    with (
        Lab.up(Topology.load("hosts: 5\nnics: 1\n")) as lab,
        ssh_lab.served(lab, folder, SERVED, entries),
    ):
        hosts = {name: lab.hosts[name] for name in SERVED}
        sleepers = {name: host.spawn(["sleep", "1000"]) for name, host in hosts.items()}
        yield Site(lab.hosts["h4"], hosts, folder, {name: sleeper.pid for name, sleeper in sleepers.items()})
        for sleeper in sleepers.values():
            sleeper.close()


@both
def test_all_reduces_are_exact_on_four_hosts(site: Site, launcher: str) -> None:
    done = site.run("--launcher", launcher, "--json", *SMALL)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["hosts"] == {"n0": 1, "n1": 1, "n2": 1, "n3": 1}
    assert (result["completed"], result["iterations"], result["wrong_elements"]) == (True, 5, 0)
    assert result["busbw_GBps"] > 0
    assert "5 iterations, 0 wrong elements" in done.stderr


@pytest.mark.slow
@both
def test_a_wrong_element_is_found(site: Site, launcher: str) -> None:
    done = site.run("--launcher", launcher, "--json", *SMALL, "--corrupt", "2:3")
    assert done.returncode == 1, done.stdout + done.stderr
    assert json.loads(done.stdout)["wrong_elements"] == 1


def running(site: Site, launcher: str) -> Process:
    """A run that would take minutes, once every host has its rank."""
    argv = site.argv("--launcher", launcher, "--json", *LONG)
    process = site.controller.spawn(argv, env={"PYTHONPATH": str(REPO)})
    deadline = time.monotonic() + LIMIT_S
    while not all(site.ranks().values()):
        assert process.poll() is None, process.stderr_tail()
        assert time.monotonic() < deadline, site.ranks()
        time.sleep(0.05)
    time.sleep(0.3)  # some iterations
    return process


@pytest.mark.parametrize("launcher", ["ssh", pytest.param("mpirun", marks=[needs_mpirun, pytest.mark.slow])])
def test_a_rank_that_dies_ends_the_others_and_is_named(site: Site, launcher: str) -> None:
    process = running(site, launcher)
    try:
        (victim,) = site.ranks()["h2"]
        os.kill(victim, signal.SIGKILL)
        assert process.wait(LIMIT_S) == 3
        assert process.stdout is not None
        result = json.loads(process.stdout.read())
        assert result["reason"].startswith("rank 2 on n2 "), result
        assert result["wrong_elements"] == 0
        assert not any(site.ranks().values())
    finally:
        process.close()


@pytest.mark.parametrize(
    "launcher", [pytest.param("ssh", marks=pytest.mark.slow), pytest.param("mpirun", marks=needs_mpirun)]
)
def test_ctrl_c_ends_all_ranks_on_all_hosts(site: Site, launcher: str) -> None:
    process = running(site, launcher)
    try:
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 130, process.stderr_tail()
        assert not any(site.ranks().values())
    finally:
        process.close()


@pytest.mark.slow
@needs_torch
@pytest.mark.parametrize("launcher", ["ssh", "torchrun", pytest.param("mpirun", marks=needs_mpirun)])
def test_collectives_through_torch_on_two_hosts(site: Site, launcher: str, tmp_path: Path) -> None:
    """Two ranks on each, gloo."""
    words = ["--cpu", "--python", str(mended_python(tmp_path)), "--env", "GLOO_SOCKET_IFNAME=mgmt0", "--json"]
    words += ["--set", "bytes=4096", "--set", 'ops=["all_reduce"]', "--ranks-per-host", "2", "--iterations", "3"]
    done = site.run("--launcher", launcher, *words, kind="collectives", hosts=":n[1-2]")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert (result["hosts"], result["iterations"], result["wrong_elements"]) == ({"n1": 2, "n2": 2}, 3, 0)


STOPPED = {
    "name": "under_a_launcher",
    "topology": {"hosts": 4, "nics": 1},
    "workload": {"bytes": 1 << 24, "iterations": 16, "channels": 1, "warmup": 1, "timeout_s": 60},
    "faults": [{"id": "f0", "kind": "stop", "rank": 2, "at": {"iteration": 4, "fraction": 0.5}, "duration_s": 1.0}],
    "arms": {"stock": {"expect": "any"}},
}


LAUNCHED = [
    pytest.param("ssh", "rank2", marks=pytest.mark.slow),
    pytest.param("mpirun", "mpirun", marks=needs_mpirun),
    pytest.param("torchrun", "torchrun on n3", marks=[pytest.mark.slow, needs_torch]),
]


@pytest.mark.parametrize(("launcher", "started"), LAUNCHED)
def test_faults_strike_ranks_that_a_launcher_started(site: Site, launcher: str, started: str, tmp_path: Path) -> None:
    """One rank is stopped and goes on: its process is found, its lines are its own, and nothing of it is left."""
    experiment = site.folder / f"stopped-{launcher}.yaml"
    experiment.write_text(json.dumps(STOPPED))
    words = ["chaos", "run", str(experiment), "--inventory", f"{site.folder}/inventory.yaml", "--launcher", launcher]
    words += ["--python", str(mended_python(tmp_path))] if launcher == "torchrun" else []
    out = tmp_path / "runs"
    argv = [*CLI, *words, "--void-ok", "--json", "--out", str(out)]
    done = site.controller.run(argv, env={"PYTHONPATH": str(REPO)}, timeout_s=100.0, check=False)
    assert done.exit_code == 0, done.stdout + done.stderr
    (run,) = json.loads(done.stdout)["arms"][0]["runs"]
    assert (run["completed"], run["iterations"], run["wrong_elements"]) == (True, 16, 0)
    (folder,) = out.iterdir()
    lines = list(read(folder / "journal.jsonl"))
    assert not [problem for line in lines for problem in problems("journal", line)]
    ended = [(line["host"], line["rank"]) for line in lines if line["event"] == "bench_end"]
    assert sorted(ended) == [(f"n{rank}", rank) for rank in range(4)]
    phases = [line["phase"] for line in lines if line["event"] == "fault"]
    assert phases[:2] == ["armed", "injected"] and phases[-1] == "verified"
    assert {line["name"] for line in lines if line["event"] == "command" and "name" in line} >= {started, "rank2"}
    assert not any(site.ranks().values())


OWN = {
    "name": "own_under_a_launcher",
    "topology": {"hosts": 4, "nics": 1},
    "workload": {
        "kind": "command",
        "argv": [sys.executable, str(Path(__file__).with_name("own_program.py")), "says_where"],
        "progress": {"step": r"step (?P<step>\d+) loss (?P<loss>\S+)"},
        "result": {"digest": "place"},
        "ranks_per_host": 2,
        "start_s": 40.0,
    },
    "faults": [{"id": "f0", "kind": "stop", "rank": 5, "at": {"iteration": 9, "fraction": 0.5}, "duration_s": 0.5}],
    "arms": {"stock": {"expect": "any"}},
}


@pytest.mark.parametrize(("launcher", "started"), [pytest.param("ssh", "rank5"), *LAUNCHED[1:]])
def test_programs_that_are_not_ours_under_a_launcher(site: Site, launcher: str, started: str, tmp_path: Path) -> None:
    """Each knows its place and leaves its result; its lines are its own; what it leaves behind is ended."""
    experiment = site.folder / f"own-{launcher}.yaml"
    experiment.write_text(json.dumps(OWN))
    words = ["chaos", "run", str(experiment), "--inventory", f"{site.folder}/inventory.yaml", "--launcher", launcher]
    words += ["--python", str(mended_python(tmp_path))] if launcher == "torchrun" else []
    out = tmp_path / "runs"
    argv = [*CLI, *words, "--void-ok", "--out", str(out)]
    done = site.controller.run(argv, env={"PYTHONPATH": str(REPO)}, timeout_s=100.0, check=False)
    assert done.exit_code == 0, done.stdout + done.stderr
    (folder,) = out.iterdir()
    lines = list(read(folder / "journal.jsonl"))
    places = {line["rank"]: (line["host"], line["result"]) for line in lines if line["event"] == "result"}
    assert places == {r: (f"n{r // 2}", f"h{r // 2} {r} 8 {r % 2} 2 {r // 2}") for r in range(8)}
    steps = {rank: sum((each["event"], each.get("rank")) == ("iteration", rank) for each in lines) for rank in range(8)}
    assert set(steps.values()) == {60}, steps
    assert {line["name"] for line in lines if line["event"] == "command" and "name" in line} >= {started, "rank5"}
    assert len(list((folder / "raw").glob("stock-0-rank*.out"))) == 8
    (token,) = {line["env"]["R2CC_RUN"] for line in lines if "R2CC_RUN" in (line.get("env") or {})}
    assert not environment_has(f"R2CC_RUN={token}")
    assert not Path(f"/tmp/r2cc-out-{token}").exists()


STANDIN = REPO / "tests" / "data" / "inference" / "standin.py"
INFERENCE = {
    "name": "served_under_a_launcher",
    "topology": {"hosts": 2, "nics": 1},
    "workload": {
        "kind": "inference",
        "server": "command",
        "argv": [sys.executable, str(STANDIN), "--peer", "10.1.0.2", "--token-ms", "25"],
        "iterations": 20,
        "rate": 15.0,
        "warmup": 1,
        "output_tokens": 20,  # half a second: some request is always under way, and only then is a silence counted
        "start_s": 60.0,
    },
    "faults": [{"id": "f0", "kind": "stop", "rank": 1, "at": {"iteration": 6}, "duration_s": 0.6}],
    "hypothesis": {"failed_requests_max": 0},
    "arms": {"stock": {"expect": "any"}},
}


@pytest.mark.parametrize(
    "launcher", ["ssh", *(pytest.param(each.values[0], marks=each.marks) for each in LAUNCHED[1:])]
)
def test_a_server_of_inference_under_a_launcher(site: Site, launcher: str, tmp_path: Path) -> None:
    """The fault on a rank strikes the server itself: tokens wait for it, and none is lost."""
    experiment = site.folder / f"served-{launcher}.yaml"
    experiment.write_text(json.dumps(INFERENCE))
    words = ["chaos", "run", str(experiment), "--inventory", f"{site.folder}/inventory.yaml:n[0-1]"]
    words += ["--python", str(mended_python(tmp_path))] if launcher == "torchrun" else []
    argv = [*CLI, *words, "--launcher", launcher, "--void-ok", "--json", "--out", str(tmp_path / "runs")]
    done = site.controller.run(argv, env={"PYTHONPATH": str(REPO)}, timeout_s=100.0, check=False)
    assert done.exit_code == 0, done.stdout + done.stderr
    (run,) = json.loads(done.stdout)["arms"][0]["runs"]
    figures = {metric["name"]: metric["value"] for metric in run["metrics"]}
    assert (run["completed"], run["iterations"], figures["failed_requests"]) == (True, 20, 0)
    assert figures["longest_silence"] > 500
    (folder,) = (tmp_path / "runs").iterdir()
    (token,) = {
        line["env"]["R2CC_RUN"] for line in read(folder / "journal.jsonl") if "R2CC_RUN" in (line.get("env") or {})
    }
    assert not environment_has(f"R2CC_RUN={token}")


def environment_has(variable: str) -> list[str]:
    """Processes with it."""
    found = []
    for process in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if variable.encode() in process.read_bytes().split(b"\0"):
                found.append(str(process))
    return found
