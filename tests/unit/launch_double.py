"""A site of two hosts as an inventory file would make it, and a program that stands in for a rank."""

from __future__ import annotations

import json
from pathlib import Path

from harness.hosts.ssh.target import Target
from harness.launch.hosts import JobHosts
from harness.workloads.kinds.workload import Programs

CURRENT = Path("/home/alice/.r2cc/current")
PROGRAMS = Programs(
    CURRENT / "bin" / "r2cc_bench",
    CURRENT / "lib" / "libr2cc_net.so",
    CURRENT / "lib" / "libnccl.so.2",
    CURRENT / "share" / "harness" / "workloads" / "rank.py",
)
JUMP = Target("gate", "gate.example.org", "alice", 2222, (Path("/home/alice/.ssh/id"),), "none", (Path("/known"),))
TARGETS = (
    Target("n1", "192.0.2.11", "alice", 22, (Path("/home/alice/.ssh/id"),), "all", (Path("/known"),), jump=JUMP),
    Target("n2", "192.0.2.12", "bob", 2200, (Path("/my keys/id"),), "named", (Path("/known"),), "n2.example.org"),
)
OF_HOST = {
    "n1": {"NCCL_HOSTID": "n1", "NCCL_SOCKET_IFNAME": "=eth0,eth1", "R2CC_SIDE_IFNAME": "eno1"},
    "n2": {"NCCL_HOSTID": "n2", "NCCL_SOCKET_IFNAME": "=ens5,ens6", "R2CC_SIDE_IFNAME": "eno1"},
}


def two_hosts() -> JobHosts:
    """Their NICs have different names; logins set NCCL_ALGO."""
    return JobHosts(("n1", "n2"), "10.0.0.1", PROGRAMS, {}, TARGETS, OF_HOST, ("NCCL_ALGO", "NCCL_DEBUG"), gpus=2)


RANK = """
import json, os, sys, time
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
rank, ranks = int(words["--rank"]), int(words["--ranks"])
plan = json.loads(os.environ.get("STANDIN", "{}"))
def say(event, **more):
    print(json.dumps({"event": event, "t_ns": 1, "rank": rank, **more}), flush=True)
say("bench_start", op="allreduce", bytes=1000000, ranks=ranks)
print("has", *(os.environ.get(name, "nothing") for name in plan.get("show", [])), flush=True)
for index in range(-1, 3):
    if plan.get("die") == [rank, index]:
        print("going down", file=sys.stderr, flush=True)
        os.kill(os.getpid(), 9) if plan.get("signal") else os._exit(7)
    if plan.get("hang") == index:
        time.sleep(600)
    say("progress", index=index, start_ns=0)
    wrong = int(plan.get("wrong") == [rank, index])
    say("iteration", index=index, start_ns=0, end_ns=2000000, bytes=1000000, wrong_elements=wrong)
say("bench_end", completed=3, wrong_elements=0)
"""


def standin_rank(folder: Path) -> Path:
    """What `bin/r2cc_bench` of a deployed build would be, under `folder`/current."""
    import shlex
    import sys

    program = folder / "current" / "bin" / "r2cc_bench"
    program.parent.mkdir(parents=True)
    (folder / "rank.py").write_text(RANK)
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(folder / "rank.py")])} "$@"\n')
    program.chmod(0o755)
    return program


def plan(**what: object) -> str:
    """For the variable STANDIN."""
    return json.dumps(what)
