"""Launchers' parts: jobs, whose line is whose, who died first, what counts as stuck, Slurm's variables, ssh's files."""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections import deque
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from launch_double import TARGETS, two_hosts

from harness.errors import UsageError
from harness.launch.gather import gathered
from harness.launch.job import Job, split
from harness.launch.launchers import mpirun, network, srun, torchrun
from harness.launch.launchers.launcher import Death
from harness.launch.launchers.registry import launchers
from harness.launch.launchers.sshfiles import ssh_config
from harness.launch.streams import Line, Whole
from harness.launch.tally import IterationMs, Tally
from harness.launch.watch import Watch
from harness.launch.workloads import Asked, job
from harness.sites import slurm
from harness.sites.inventory import parse
from harness.workloads.reading.lines import parsed

SLURM = Path(__file__).parents[1] / "data" / "slurm"
SHOW = ("sh", "-c", 'echo "$1 $2 $NCCL_SOCKET_IFNAME ${NCCL_ALGO-none}"', "show")


def started(job: Job, **env: str) -> subprocess.CompletedProcess[str]:
    """The words that a launcher would start, under variables as it sets them."""
    words = job.by_itself("PMI_RANK", "PMI_PLACE")
    full = {"PATH": os.environ["PATH"], "NCCL_ALGO": "Tree", **env}
    return subprocess.run(words, env=full, capture_output=True, text=True, timeout=60)


def test_a_rank_finds_its_number_and_what_its_host_has() -> None:
    of_host = {"a": {"NCCL_SOCKET_IFNAME": "=eth0:1"}, "b": {"NCCL_SOCKET_IFNAME": "=ens 5"}}
    made = Job(SHOW, {"a": 2, "b": 1}, "a:1", of_host=of_host, unset=("NCCL_ALGO",))
    assert started(made, PMI_RANK="1", PMI_PLACE="1").stdout == "--rank 1 =eth0:1 none\n"
    assert started(made, PMI_RANK="2", PMI_PLACE="0").stdout == "--rank 2 =ens 5 none\n"


def test_one_that_another_launcher_started_says_so() -> None:
    done = started(Job(SHOW, {"a": 2}, "a:1"), PMI_RANK="1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "PMI_PLACE" in done.stderr


def test_ranks_are_counted_host_by_host() -> None:
    made = Job(("p",), {"b": 2, "a": 1}, "b:1", told=("--rank", "--gpu"))
    assert [made.host_of(rank) for rank in range(made.ranks)] == ["b", "b", "a"]
    assert [made.as_rank(rank)[1:] for rank in (1, 2)] == [
        ["--rank", "1", "--gpu", "1"],
        ["--rank", "2", "--gpu", "0"],
    ]
    assert launchers()["srun"].plan(made, two_hosts(), "/f").files == {"hostfile": "b\nb\na\n"}
    with pytest.raises(UsageError, match="as many ranks"):
        torchrun.command(made, "a")
    with pytest.raises(UsageError, match="at least one host"):
        Job(("p",), {}, "b:1")


def test_what_is_the_same_on_all_hosts() -> None:
    env = {"a": {"X": "1", "Y": "2"}, "b": {"X": "1", "Y": "3", "Z": "4"}}
    assert split(env, ["a", "b"]) == ({"X": "1"}, {"a": {"Y": "2"}, "b": {"Y": "3", "Z": "4"}})
    assert split({}, ["a"]) == ({}, {})


def test_an_environment_of_ones_own_wins() -> None:
    made = job(Asked("bench", env={"NCCL_SOCKET_IFNAME": "ib0"}), two_hosts(), {})
    assert made.env["NCCL_SOCKET_IFNAME"] == "ib0"
    assert all("NCCL_SOCKET_IFNAME" not in own for own in made.of_host.values())


def test_one_rank_is_no_bench() -> None:
    with pytest.raises(UsageError, match="two ranks"):
        job(Asked("bench"), replace(two_hosts(), names=("n1",)), {})


def fed(reader: object, text: bytes, step: int) -> list[Line]:
    return [line for at in range(0, len(text), step) for line in reader(text[at : at + step])]  # type: ignore[operator]


@pytest.mark.parametrize("step", [1, 3, 7, 1000])
def test_tags_amid_a_line_are_no_part_of_it(step: int) -> None:
    text = b'[1,0]<stdout>:{"a": [1,[1,1]<stdout>:x\r\n[1,0]<stdout>:2]}\n----\n[1,1]<stderr>:bad\n'
    assert fed(mpirun.Tagged(), text, step) == [(1, b"x"), (0, b'{"a": [1,2]}'), (None, b"----"), (1, b"bad")]


@pytest.mark.parametrize("step", [1, 1000])
def test_labels_and_whole_lines(step: int) -> None:
    text = b"0: a: b\n12: \nsrun: error\n"
    assert fed(srun.Srun().reader(None), text, step) == [(0, b"a: b"), (12, b""), (None, b"srun: error")]
    text = b"r2cc:12:5: b\nr2cc:0:\n3: c\n"
    assert fed(torchrun.Torchrun().reader(None), text, step) == [(12, b"5: b"), (0, b""), (None, b"3: c")]
    assert fed(Whole(3), b"a\r\nb", step) == [(3, b"a")]


MPIRUN_EXIT = """[1,1]<stderr>:r2cc_bench: no
--------------------------------------------------------------------------
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[20791,1],1]
  Exit code:    7
--------------------------------------------------------------------------
"""
MPIRUN_SIGNAL = "mpirun noticed that process rank 2 with PID 0 on node n2 exited on signal 9 (Killed).\n"
SRUN = """srun: error: n2: task 1: Exited with exit code 3
srun: launch/slurm: _step_signal: Terminating StepId=21.0
srun: error: n1: task 0: Killed
"""
TORCH = """Root Cause (first observed failure):
[0]:
  time      : 2026-11-25_04:00:00
  host      : n1
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 12345)
"""


@pytest.mark.parametrize(
    ("launcher", "said", "death"),
    [
        ("mpirun", MPIRUN_EXIT, Death(1, 7)),
        ("mpirun", MPIRUN_SIGNAL, Death(2, -9)),
        ("mpirun", "ssh: connect to host n1 port 22: Connection refused\n", None),
        ("srun", SRUN, Death(0, -9)),
        ("srun", "srun: error: n2: task 1: Exited with exit code 3\n", Death(1, 3)),
        ("srun", "srun: error: n2: tasks 2-3: Exited with exit code 7\n", Death(2, 7)),
        ("srun", "srun: error: Unable to create step for job 8\n", None),
        ("torchrun", TORCH, Death(1, -9)),
        ("ssh", MPIRUN_EXIT, None),
    ],
)
def test_who_died_first(launcher: str, said: str, death: Death | None) -> None:
    assert launchers()[launcher].first_death(said) == death


def test_stuck_is_judged_by_its_own_pace() -> None:
    watch = Watch(100.0, starting_s=60)
    assert watch.stuck(159) == ""
    assert watch.stuck(161) == "no rank began an iteration for 61 s"
    for second in range(5):
        watch.moved(110.0 + second, 1.0)
    assert watch.stuck(114 + 30) == "" and watch.stuck(114 + 31) == "nothing moved for 31 s"
    slow = Watch(0.0, paces_s=deque([20.0] * 3), moved_s=100.0)
    assert slow.stuck(299) == "" and slow.stuck(301) != ""
    growing = Watch(0.0, growing=True, paces_s=deque([0.1, 0.1, 9.0]), moved_s=0.0)
    assert growing.stuck(89) == "" and growing.stuck(91) != ""


def test_lines_come_to_figures() -> None:
    tally = Tally(2)
    for rank in (0, 1):
        tally.add({"event": "bench_start", "rank": rank, "op": "allreduce", "bytes": 10**6})
        for index in (-1, 0, 1):
            end_ns = (index + 2) * 10**6
            tally.add({"event": "iteration", "rank": rank, "index": index, "start_ns": 0, "end_ns": end_ns})
    tally.add({"event": "iteration", "rank": 0, "index": 2, "start_ns": 0, "end_ns": 1, "wrong_elements": 4})
    tally.add({"event": "path", "connection": 1})
    figures = tally.figures()
    assert figures.iteration_ms == IterationMs(2.5, 3.0)
    assert figures.busbw_GBps == pytest.approx(0.4)
    assert (figures.iterations, figures.wrong_elements, figures.completed) == (2, 4, False)
    tally.add({"event": "error", "rank": 0, "peer": 1, "message": "rank 1 died"})
    assert tally.blamed() == 1
    tally.add({"event": "error", "rank": 1, "peer": 0, "message": "rank 0 died"})
    assert tally.blamed() is None
    assert [parsed(text) for text in (b"{no", b"text", b'{"event": 3}', b"[1]")] == [None] * 4


def recorded(name: str) -> dict[str, str]:
    lines = (SLURM / f"{name}.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize(
    ("name", "tasks"),
    [
        ("salloc_even", {"n1": 2, "n2": 2}),
        ("salloc_uneven", {"n1": 8, "n2": 1}),
        ("sbatch_uneven", {"n1": 2, "n2": 1}),
        ("salloc_nodes_only", None),
        ("salloc_exclusive", None),
        ("salloc_gpus", None),
        ("sbatch_gpus", None),
        ("sbatch_gpus_per_task", {"n1": 5, "n2": 3}),
    ],
)
def test_recorded_allocations(name: str, tasks: dict[str, int] | None) -> None:
    found = slurm.allocation(recorded(name))
    assert (found.hosts, found.tasks, found.gpus) == (("n1", "n2"), tasks, None)


def test_older_names_and_gpus() -> None:
    env = {"SLURM_JOBID": "1", "SLURM_NODELIST": "gpu[08-10],login1", "SLURM_GPUS_ON_NODE": "8"}
    assert slurm.allocation(env) == slurm.Allocation("1", ("gpu08", "gpu09", "gpu10", "login1"), None, 8)


@pytest.mark.parametrize(
    ("said", "gpus"),
    [
        ({"SLURM_GPUS_PER_NODE": "4"}, 4),
        ({"SLURM_GPUS_PER_NODE": "a100:4"}, 4),
        ({"SLURM_GPUS_PER_NODE": "a100:2,v100:1"}, 3),
        ({"SLURM_GPUS": "8"}, None),
        ({"SLURM_GPUS": "2"}, 1),
        ({"SLURM_GPUS": "a100:8", "SLURM_JOB_NODELIST": "n1"}, 8),
        ({"SLURM_GPUS_ON_NODE": "5", "SLURM_GPUS": "8"}, None),
        ({"SLURM_JOB_GPUS": "0-3", "SLURM_GPUS": "8"}, 4),
        ({"SLURM_GPUS_ON_NODE": "4", "SLURM_GPUS": "12", "SLURM_JOB_NODELIST": "n[1-3]"}, None),
        ({"SLURM_GPUS_ON_NODE": "4", "SLURM_GPUS_PER_TASK": "1"}, None),
        ({"SLURM_GPUS_ON_NODE": "4", "SLURM_GPUS_PER_TASK": "1", "SLURM_JOB_NODELIST": "n1"}, 4),
        ({"SLURM_JOB_GPUS": "0-3,6"}, 5),
        ({"SLURM_GPUS_ON_NODE": "2", "SLURM_GPUS_PER_NODE": "4"}, 2),
        ({"SLURM_GPUS_PER_NODE": "many"}, None),
        ({"SLURM_JOB_GPUS": "3-"}, None),
        ({}, None),
    ],
)
def test_gpus_as_salloc_and_sbatch_say_them(said: dict[str, str], gpus: int | None) -> None:
    """A shell of salloc has only what was asked for (Slurm 22.05), and nothing at all of `--gres`."""
    assert slurm.allocation({"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "n[1-2]", **said}).gpus == gpus


def test_gpus_that_nobody_names_are_not_taken_for_one() -> None:
    site = replace(two_hosts(), gpus=None, allocation=slurm.Allocation("7", ("n1", "n2")))
    with pytest.raises(UsageError, match="how many GPUs each node has"):
        job(Asked("collectives"), site, {})
    assert job(Asked("collectives", ranks_per_host=4), site, {}).hosts == {"n1": 4, "n2": 4}
    assert job(Asked("bench"), site, {}).hosts == {"n1": 1, "n2": 1}


def test_what_a_task_prolog_sets_is_not_the_ranks() -> None:
    made = Job(("env",), {"n1": 1}, "n1:1", {"R2CC_MODE": "0", "HOME": "/home/alice"}, told=())
    plan = launchers()["srun"].plan(made, two_hosts(), "/tmp/r2cc-run")
    words = plan.commands[0].argv[plan.commands[0].argv.index("sh") :]
    prolog = {"NCCL_NET_PLUGIN": "r2cc", "R2CC_STATUS_DIR": "/run/r2cc status", "R2CC_LINES": "a\nNCCL_X=1"}
    env = {"PATH": os.environ["PATH"], "OTHER": "1", **plan.commands[0].env, **prolog}
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=True)
    left = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert {name: left.get(name) for name in ("OTHER", "R2CC_MODE", "HOME")} == {
        "OTHER": "1", "R2CC_MODE": "0", "HOME": "/home/alice"
    }  # fmt: skip
    assert not {*left} & {*prolog, "NCCL_X"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"SLURM_JOB_ID": ""}, "no Slurm allocation: SLURM_JOB_ID"),
        ({"SLURM_JOB_NODELIST": ""}, "SLURM_JOB_NODELIST is not set"),
        ({"SLURM_JOB_NODELIST": "n[2-1"}, "cannot be understood"),
        ({"SLURM_TASKS_PER_NODE": "2(x3),1"}, "is of 4 hosts, and there are 2"),
        ({"SLURM_TASKS_PER_NODE": "2(y3)"}, "cannot be understood"),
        ({"SLURM_TASKS_PER_NODE": "2,0"}, "cannot be understood"),
    ],
)
def test_what_is_no_allocation(more: dict[str, str], said: str) -> None:
    env = {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NTASKS": "4", "SLURM_TASKS_PER_NODE": "2(x2)"}
    assert slurm.allocation(env).tasks == {"n1": 2, "n2": 2}
    with pytest.raises(UsageError) as caught:
        slurm.allocation({**env, **more})
    assert said in str(caught.value) and "try: " in str(caught.value)


def test_an_allocation_is_an_inventory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host n2\n  HostName 192.0.2.2\n  User bob\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in recorded("salloc_even").items():
        monkeypatch.setenv(name, value)
    site = parse("slurm")
    assert isinstance(site, slurm.SlurmSite)
    first, second = site.members
    assert (first.name, first.target.address, second.target.shown) == ("n1", "n1", "bob@192.0.2.2")


@pytest.mark.skipif(shutil.which("ssh") is None, reason="no ssh")
def test_ssh_understands_the_file(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(ssh_config(TARGETS))
    said = {}
    for name in ("n1", "r2cc-jump-alice-gate.example.org-2222", "n2"):
        argv = ["ssh", "-G", "-F", str(tmp_path / "config"), name]
        said[name] = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {"hostname 192.0.2.11", "proxyjump r2cc-jump-alice-gate.example.org-2222"} <= set(said["n1"])
    assert {"user bob", "port 2200", "identityfile /my keys/id", "hostkeyalias n2.example.org"} <= set(said["n2"])
    assert {"identitiesonly yes", "stricthostkeychecking true", "batchmode yes"} <= set(said["n2"])
    assert {"port 2222", "user alice"} <= set(said["r2cc-jump-alice-gate.example.org-2222"])
    proxied = replace(TARGETS[1], jump=None, proxy_command="tool --to x 100%", agent_socket=Path("/run/agent"))
    (tmp_path / "config").write_text(ssh_config([proxied]))
    said["n2"] = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {"proxycommand tool --to x 100%%", "identityagent /run/agent"} <= set(said["n2"])
    with pytest.raises(UsageError, match="several lines"):
        ssh_config([replace(proxied, proxy_command="a\nb")])
    with pytest.raises(UsageError, match="rename"):
        ssh_config([replace(TARGETS[1], known_hosts=(Path('/a"b'),))])


def test_the_network_that_leads_there(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {"lo": [("127.0.0.1", "255.0.0.0")], "eno1": [("198.51.100.9", "255.255.255.0")]}
    found = {
        nic: [SimpleNamespace(family=socket.AF_INET, address=address, netmask=mask) for address, mask in addresses]
        for nic, addresses in ours.items()
    }
    monkeypatch.setattr("psutil.net_if_addrs", lambda: found)
    assert network.towards("198.51.100.1") == "198.51.100.0/24"
    assert network.towards("192.0.2.1") == network.towards("127.0.0.1") == network.towards("2001:db8::1") == ""


def test_golden_json_is_no_text(tmp_path: Path) -> None:
    """Settings of a workload arrive as JSON."""
    made = job(Asked("ddp", spec={"layers": 2}), two_hosts(), {})
    assert json.loads(made.program[-1]) == {"layers": 2}


def test_ranks_planned_one_by_one_become_one_job() -> None:
    argvs = [["env", "-u", "X", "/bin/rank", "--rank", str(rank), "--ranks", "3", "--gpu", "0"] for rank in range(3)]
    own = [{"NCCL_HOSTID": host, "LD_PRELOAD": "/lib", "A": "1"} for host in ("n1", "n1", "n2")]
    made = gathered(["n1", "n1", "n2"], argvs, [own[0], {**own[1], "CLOCK": "f"}, own[2]], rendezvous="n1:1")
    assert (made.program, made.hosts) == (("env", "-u", "X", "/bin/rank", "--ranks", "3"), {"n1": 2, "n2": 1})
    assert made.env == {"A": "1"}, "what is preloaded is for ranks alone"
    assert made.of_host["n2"] == {"NCCL_HOSTID": "n2", "LD_PRELOAD": "/lib"}
    assert made.of_rank == {1: {"CLOCK": "f"}}
    with pytest.raises(UsageError, match="one program on all hosts"):
        gathered(["n1", "n2"], [["/a", "--rank", "0"], ["/b", "--rank", "1"]], [{}, {}], rendezvous="n1:1")


def test_a_rank_says_its_process_id_and_has_what_is_its_own() -> None:
    argv = ["sh", "-c", 'echo "$$ $OWN"', "--rank", "0"]
    made = gathered(["n1", "n1"], [argv, [*argv[:-1], "1"]], [{}, {"OWN": "mine"}], rendezvous="n1:1")
    env = {"PATH": os.environ["PATH"], "R": "1", "P": "1"}
    done = subprocess.run(made.by_itself("R", "P"), env=env, capture_output=True, text=True, check=True)
    said, own = done.stdout.splitlines()
    pid = json.loads(said)["pid"]
    assert (json.loads(said), own) == (
        {"event": "rank_pid", "rank": 1, "pid": pid, "host": platform.node(), "t_ns": 0},
        f"{pid} mine",
    )
