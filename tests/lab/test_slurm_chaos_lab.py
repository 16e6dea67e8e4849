"""Faults inside a Slurm allocation, with no inventory file: lab hosts, each with its own slurmd, sshd and NICs."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import slurm_lab
import ssh_lab
from slurm_lab import SBIN, await_true

from chaos.record.journal import read
from harness.build import build_net
from harness.hosts import Host, Result
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.progress import silent
from harness.schemas import problems

pytestmark = [*ssh_lab.NEEDS, *slurm_lab.NEEDS, pytest.mark.timeout(600)]
REPO = Path(__file__).parents[2]
NODES = ("h0", "h1")
FRONT = "h2"
"""From where the allocation is used."""
CLI = [sys.executable, "-c", "from harness.cli import main; main()"]


LONG_S = 240.0
"""A busy machine's Python starts late, and is started often here."""


class Cluster:
    """What is on it is in `folder`. The home of whoever uses it is `folder`/home, which nodes, alone, have as /root."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.front: Host = lab.hosts[FRONT]
        self.folder = folder
        self.env = {
            "SLURM_CONF": f"{folder}/slurm.conf",
            "PYTHONPATH": str(REPO),
            "HOME": f"{folder}/home",
            "PATH": SBIN,
        }

    def run(self, *argv: str, limit_s: float = LONG_S) -> Result:
        return self.front.run(argv, env=self.env, timeout_s=limit_s, check=False)

    def allocated(self, *words: str, asked: tuple[str, ...] = ("--ntasks-per-node=1",)) -> Result:
        return self.run("salloc", "-Q", "-N2", *asked, *CLI, *words, limit_s=LONG_S)

    def left(self, node: str) -> Path:
        """The status folder of a node, as we see it."""
        return self.folder / f"run.{node}" / "r2cc-status"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("slurm")
    deploy(folder / "home" / ".r2cc" / "current")
    addresses = {name: ssh_lab.address_of(name) for name in (*NODES, FRONT)}
    shape = "CPUs=4 Gres=gpu:4 State=UNKNOWN"
    nodes = "\n".join(f"NodeName={name} NodeAddr={addresses[name]} {shape}" for name in NODES)
    # PMIx makes the same folder there on each node.
    nodes = f"GresTypes=gpu\n{nodes}\n{scripts(folder)}TmpFS={folder}/tmp"
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-3]\n")
    for index in range(4):
        (folder / f"gpu{index}").symlink_to("/dev/null")
    munged = slurm_lab.configured(folder, FRONT, addresses[FRONT], 6817, nodes)
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # lab hosts have none, and nothing here uses any
    with Lab.up(Topology.load("hosts: 3\nnics: 2\n")) as lab, ExitStack() as running:
        for name in NODES:
            lab.hosts[name].run(["mount", "--make-rprivate", "/"])
            (folder / "python").mkdir(exist_ok=True)
            lab.hosts[name].run(["mount", "--bind", sys.base_prefix, str(folder / "python")])
            lab.hosts[name].run(["mount", "--bind", str(folder / "home"), "/root"])
            for each in ("tmp", "run"):
                for made in (folder / each, folder / f"{each}.{name}"):
                    made.mkdir(exist_ok=True)
                lab.hosts[name].run(["mount", "--bind", str(folder / f"{each}.{name}"), str(folder / each)])
        running.enter_context(ssh_lab.served(lab, folder, NODES))
        (folder / "home" / ".ssh").mkdir(mode=0o700)
        (folder / "home" / ".ssh" / "config").write_text("".join(way_to(folder, name) for name in NODES))
        cluster = Cluster(lab, folder)
        for host, argv in (
            (FRONT, munged),
            (FRONT, slurm_lab.controller(folder)),
            *((name, slurm_lab.node(folder, name)) for name in NODES),
        ):
            with (folder / f"{host}-{argv[0]}.out").open("wb") as log:
                process = lab.hosts[host].spawn(argv, env={"PATH": SBIN}, stdout=log, stderr=log)
            running.callback(process.close)
            await_true((folder / "munge.sock").exists, "munged")
        await_true(lambda: cluster.run("sinfo", "-h", "-o", "%D %T").stdout == "2 idle\n", "sinfo")
        yield cluster


R2CC = """#!/bin/sh
# As on a machine of its own: this one's Python lies in a home that nodes have not.
export PYTHONHOME={folder}/python PYTHONPATH={packages}
exec {folder}/python/bin/python3 -c 'from harness.cli import main; main()' "$@"
"""


def scripts(folder: Path) -> str:
    """The lines of slurm.conf; the scripts are the page's, but for where things lie."""
    packages = os.pathsep.join([str(REPO), *(each for each in sys.path if each.endswith("site-packages"))])
    made = {"r2cc": R2CC.format(folder=folder, packages=packages)}
    places = {"/run/r2cc-": f"{folder}/run/r2cc-", "/opt/r2cc/bin/r2cc": f"{folder}/r2cc"}
    places |= {"/shared/r2cc": f"{folder}/reports", "logger -t r2cc-epilog": f"cat >>{folder}/epilog.log"}
    there = re.compile("|".join(map(re.escape, places)))
    for name, text in slurm_lab.scripts_of_the_page().items():
        made[name] = there.sub(lambda found: places[found[0]], text)
    # A machine whose slurm.conf is in its own place needs no such line.
    made["r2cc-health"] = made["r2cc-health"].replace("\n", f"\nexport SLURM_CONF={folder}/slurm.conf\n", 1)
    for name, text in made.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    named = {"Prolog": "r2cc-prolog", "TaskProlog": "r2cc-task-prolog", "Epilog": "r2cc-epilog"}
    named["HealthCheckProgram"] = "r2cc-health"
    return "".join(f"{key}={folder}/{name}\n" for key, name in named.items()) + "HealthCheckInterval=3\n"


def deploy(current: Path) -> None:
    """What `r2cc deploy` makes of a build."""
    made = build_net(progress=silent)
    programs = {"bin/r2cc_bench": made.bench, "bin/r2cc_sampler": made.sampler, "lib/libr2cc_net.so": made.library}
    for name, file in programs.items():
        (current / name).parent.mkdir(parents=True, exist_ok=True)
        (current / name).symlink_to(file)
    (current / "share").mkdir()
    (current / "share" / "harness").symlink_to(REPO / "harness")
    shutil.copy(made.bench.with_name("build.json"), current)


def way_to(folder: Path, name: str) -> str:
    return (
        f"Host {name}\n  HostName {ssh_lab.address_of(name)}\n  User root\n  IdentityFile {folder}/user_key\n"
        f"  UserKnownHostsFile {folder}/known_hosts\n"
    )


HOLE: dict[str, Any] = {"id": "hole", "kind": "black_hole", "host": "h1", "nic": "eth1", "duration_s": 1.0}
HOLE |= {"at": {"iteration": 6, "fraction": 0.5}}
HALT: dict[str, Any] = {"id": "halt", "kind": "stop", "rank": 0, "duration_s": 0.5}
HALT |= {"at": {"after": "hole", "event": "reverted", "ms": 300}, "may_miss": True}
EXPERIMENT: dict[str, Any] = {
    "name": "in_an_allocation",
    "topology": {"hosts": 2, "nics": 2},
    "workload": {"bytes": 1 << 24, "iterations": 30, "channels": 2, "warmup": 1, "timeout_s": 60},
    "faults": [HOLE, HALT],
    "arms": {"migrate": {"expect": "any"}},
}


def test_faults_strike_on_hosts_of_the_allocation(cluster: Cluster) -> None:
    experiment = cluster.folder / "experiment.yaml"
    experiment.write_text(json.dumps(EXPERIMENT))
    words = ["chaos", "run", str(experiment), "--launcher", "srun"]
    plan = cluster.allocated(*words, "--dry-run", "--json")
    assert plan.exit_code == 0, plan.stdout + plan.stderr
    (ranks,) = [each for each in json.loads(plan.stdout)["runs"][0]["start"] if each["name"] == "srun"]
    assert "--nodelist=h0,h1" in ranks["argv"]
    out = cluster.folder / "runs"
    done = cluster.allocated(*words, "--void-ok", "--json", "--out", str(out))
    assert done.exit_code == 0, done.stdout + done.stderr
    (run,) = json.loads(done.stdout)["arms"][0]["runs"]
    assert (run["completed"], run["iterations"], run["wrong_elements"]) == (True, 30, 0)
    lines = list(read(next(out.iterdir()) / "journal.jsonl"))
    assert not [problem for line in lines for problem in problems("journal", line)]
    (start,) = [line for line in lines if line["event"] == "run_start"]
    assert {host: sorted(nics) for host, nics in start["nics"].items()} == {name: ["eth0", "eth1"] for name in NODES}
    for name in ("hole", "halt"):
        phases = [line["phase"] for line in lines if line["event"] == "fault" and line["id"] == name]
        assert phases == ["armed", "injected", "active", "reverted", "verified"]
    assert {line["host"] for line in lines if line["event"] == "sample"} == {*NODES}


def test_a_program_that_is_not_ours(cluster: Cluster) -> None:
    """Each rank knows its place, its lines and its result are its own. Nodes have not the home of this Python."""
    program = ["/usr/bin/python3", str(Path(__file__).with_name("own_program.py")), "says_where"]
    workload = {"kind": "command", "argv": program, "progress": {"step": r"step (?P<step>\d+)"}}
    workload |= {"result": {"digest": "place"}, "start_s": 60.0}
    experiment = cluster.folder / "own.yaml"
    experiment.write_text(json.dumps({**EXPERIMENT, "workload": workload, "faults": [HOLE]}))
    out = cluster.folder / "own"
    done = cluster.allocated("chaos", "run", str(experiment), "--launcher", "srun", "--void-ok", "--out", str(out))
    assert done.exit_code == 0, done.stdout + done.stderr
    lines = list(read(next(out.iterdir()) / "journal.jsonl"))
    places = {line["rank"]: (line["host"], line["result"]) for line in lines if line["event"] == "result"}
    assert places == {0: ("h0", "h0 0 2 0 1 0"), 1: ("h1", "h1 1 2 0 1 1")}
    steps = [line["rank"] for line in lines if line["event"] == "iteration"]
    assert (steps.count(0), steps.count(1)) == (60, 60)


def test_a_server_of_inference(cluster: Cluster) -> None:
    standin = Path(__file__).parents[1] / "data" / "inference" / "standin.py"
    program = ["/usr/bin/python3", str(standin), "--token-ms", "25"]
    workload = {"kind": "inference", "server": "command", "argv": program}
    # Half a second a request: some request is always under way, and only then is a silence counted.
    workload |= {"iterations": 20, "rate": 15.0, "warmup": 1, "output_tokens": 20, "start_s": 60.0}
    experiment = cluster.folder / "served.yaml"
    experiment.write_text(json.dumps({**EXPERIMENT, "workload": workload, "faults": [HALT | {"at": {"iteration": 6}}]}))
    words = ["chaos", "run", str(experiment), "--launcher", "srun", "--void-ok", "--json"]
    done = cluster.allocated(*words, "--out", str(cluster.folder / "served"))
    assert done.exit_code == 0, done.stdout + done.stderr
    (run,) = json.loads(done.stdout)["arms"][0]["runs"]
    figures = {metric["name"]: metric["value"] for metric in run["metrics"]}
    assert (run["completed"], run["iterations"], figures["failed_requests"]) == (True, 20, 0)
    assert figures["longest_silence"] > 400


RING = REPO / "tests" / "data" / "nccl_tests" / "ring.py"
PLACE = """#!/bin/sh
export OMPI_COMM_WORLD_RANK="$PMIX_RANK" OMPI_COMM_WORLD_SIZE="$SLURM_NTASKS" OMPI_COMM_WORLD_LOCAL_SIZE=1
exec /usr/bin/python3 "$0.py" "$@"
"""


def test_nccl_tests_whose_ranks_pmix_places(cluster: Cluster) -> None:
    """A stand-in prints and moves what a program of nccl-tests does. What it knows of its rank comes from PMIx."""
    loaded = cluster.run("salloc", "-Q", "-N1", "srun", "--mpi=pmix", "true")
    if "Invalid MPI type" in loaded.stderr:
        pytest.skip("Slurm cannot load PMIx (apt-get install --no-install-recommends libpmix-dev)")
    program = cluster.folder / "nccl-tests" / "alltoallv_perf"
    program.parent.mkdir()
    program.write_text(PLACE)
    program.with_name("alltoallv_perf.py").symlink_to(RING)
    program.chmod(0o755)
    workload = {"kind": "nccl_tests", "op": "alltoallv", "bytes": "256K", "iterations": 10, "cycles": 12}
    workload |= {"gpus_per_rank": 0, "preload": "none"}
    hole = HOLE | {"nic": "eth0", "at": {"iteration": 65, "fraction": 0.5}}
    experiment = cluster.folder / "nccl_tests.yaml"
    experiment.write_text(json.dumps({**EXPERIMENT, "workload": workload, "faults": [hole]}))
    cluster.env["R2CC_NCCL_TESTS"] = str(program.parent)
    try:
        words = ["chaos", "run", str(experiment), "--launcher", "srun", "--void-ok", "--json"]
        done = cluster.allocated(*words, "--out", str(cluster.folder / "nccl_tests"))
    finally:
        del cluster.env["R2CC_NCCL_TESTS"]
    assert done.exit_code == 0, done.stdout + done.stderr
    (run,) = json.loads(done.stdout)["arms"][0]["runs"]
    assert (run["completed"], run["iterations"], run["wrong_elements"]) == (True, 240, 0)
    (fault,) = run["faults"]
    assert fault["longest_ms"] > 500


def test_the_prologs_of_the_page(cluster: Cluster) -> None:
    """Each node has its folders; tasks have the variables, and what a job set itself stays."""
    wanted = {"NCCL_NET_PLUGIN": "r2cc", "R2CC_MODE": "2"}
    wanted |= {f"R2CC_{name.upper()}_DIR": f"{cluster.folder}/run/r2cc-{name}" for name in ("status", "control")}
    for own in ({}, {"NCCL_NET_PLUGIN": "none"}):
        words = ["env", *(f"{name}={value}" for name, value in own.items()), "srun", "env"]
        said = cluster.run("salloc", "-Q", "-N2", "--ntasks-per-node=1", *words).stdout.splitlines()
        told = sorted(line for line in said if line.startswith(("NCCL_NET", "R2CC_")))
        assert told == sorted(2 * [f"{name}={value}" for name, value in {**wanted, **own}.items()])
    for node in NODES:
        modes = [oct(cluster.left(node).with_name(f"r2cc-{name}").stat().st_mode) for name in ("status", "control")]
        assert modes == ["0o41777", "0o40755"]


def test_gpus_that_salloc_was_asked_for_have_a_rank_each(cluster: Cluster) -> None:
    words = ["run", "collectives", "--launcher", "srun", "--dry-run"]
    plan = cluster.allocated(*words, asked=("--gpus-per-node=4",))
    assert "--ntasks=8 --ntasks-per-node=4 " in plan.stdout, plan.stdout + plan.stderr


def test_the_epilog_reports_of_a_job_that_met_a_fault(cluster: Cluster) -> None:
    """Each node's epilog brings what its processes left; the last one has it all. Only the job that was told to leave
    something did: what the task prolog says is kept from ranks of `chaos run`."""
    cut = {"id": "cut", "kind": "link_down", "host": "h1", "nic": "eth1", "duration_s": 1.0}
    cut |= {"at": {"iteration": 6, "fraction": 0.5}}
    arms = {"balance": {"expect": "any", "env": {"R2CC_STATUS_DIR": f"{cluster.folder}/run/r2cc-status"}}}
    experiment = cluster.folder / "reported.yaml"
    experiment.write_text(json.dumps({**EXPERIMENT, "faults": [cut], "arms": arms}))
    words = ["chaos", "run", str(experiment), "--launcher", "srun", "--void-ok", "--out", str(cluster.folder / "rep")]
    done = cluster.allocated(*words, asked=("--ntasks-per-node=1", "--gpus-per-node=4"))
    assert done.exit_code == 0, done.stdout + done.stderr
    (folder,) = within(lambda: [*(cluster.folder / "reports").glob("*")])
    assert folder.name.isdigit()
    files = [lambda node=node: not [*cluster.left(node).glob("*.json")] for node in NODES]
    await_true(lambda: all(empty() for empty in files), "the end of the epilogs", LONG_S)
    await_true((folder / "report.md").is_file, "the report", LONG_S)
    said = cluster.run(*CLI, "job-report", "--status", str(folder), "--job", folder.name, "--json", "--gpus", "16")
    report = json.loads(said.stdout)
    assert (report["verdict"], report["failures"], report["restarts_avoided"]) == ("carried", 1, 1), said.stdout
    assert (report["nics"][0]["host"], report["nics"][0]["nic"]) == ("h1", "eth1")
    assert report["gpu_hours_saved"] == pytest.approx(16 * 20 / 60, abs=0.02)
    text = (folder / "report.md").read_text()
    assert "1 NIC failure carried" in text and "1 restart of 25 min on 8 GPUs" in text
    assert "error" not in (cluster.folder / "epilog.log").read_text()  # of a node that no step ran on: no folder yet


def test_slurm_drains_a_node_that_lost_and_none_that_is_carried(cluster: Cluster) -> None:
    """Its own HealthCheckProgram, which asks `r2cc health`: slurmd starts it every few seconds."""
    sys.path.insert(0, str(REPO / "tests" / "unit"))
    from watch_files import nic, status, write

    for node in NODES:
        cluster.left(node).mkdir(parents=True, exist_ok=True)

    def state(name: str) -> str:
        return cluster.run("sinfo", "-h", "-n", name, "-o", "%T %E").stdout.strip()

    def carried() -> bool:
        write(cluster.left("h0"), status(nic("eth0", "down"), nic("eth1"), host="h0"), name="h0-7-0")
        write(cluster.left("h1"), status(nic("eth0", "down"), connections={"held": 2}, host="h1"), name="h1-7-0")
        return "drain" in state("h1")

    await_true(carried, "the drain of h1", LONG_S)
    assert "drain" not in state("h0")
    assert "R2CC held: 2 connections" in state("h1")
    for node in NODES:
        for file in cluster.left(node).glob("*.json"):
            file.unlink()
    cluster.run("scontrol", "update", "nodename=h1", "state=resume")
    await_true(lambda: state("h1").split()[0] == "idle", "the end of the drain", LONG_S)


def test_a_health_check_that_cannot_ask_drains_no_node(cluster: Cluster) -> None:
    """R2CC that is not there, or fails, is no verdict."""
    script = (cluster.folder / "r2cc-health").read_text()
    for words in ("/nowhere/r2cc", "sh -c 'echo hello; exit 2'", "sh -c 'echo hello; exit 70'", "sh -c 'exit 1'"):
        broken = script.replace(f"{cluster.folder}/r2cc", words, 1).replace("/usr/bin/scontrol", "echo DRAINS")
        done = cluster.front.run(["sh", "-c", broken], env={**cluster.env, "SLURMD_NODENAME": "h1"}, check=False)
        assert "DRAINS" not in done.stdout, words


def within(what: Any) -> Any:
    await_true(lambda: bool(what()), "it", LONG_S)
    return what()


def test_a_node_without_a_nic_for_data_is_named(cluster: Cluster) -> None:
    experiment = cluster.folder / "nowhere.yaml"
    experiment.write_text(json.dumps(EXPERIMENT))
    cluster.env["NCCL_SOCKET_IFNAME"] = "ib"
    try:
        done = cluster.allocated("chaos", "run", str(experiment), "--launcher", "srun", "--dry-run")
    finally:
        del cluster.env["NCCL_SOCKET_IFNAME"]
    assert done.exit_code == 2, done.stdout + done.stderr
    assert "h1: nobody says which NICs carry data" in done.stderr and "NCCL_SOCKET_IFNAME" in done.stderr
