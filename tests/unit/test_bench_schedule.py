"""`r2cc_bench --schedule` as processes on this machine, over the real net library: one rank a host, by name.

Nothing is broken here: a rank says that its NIC has less (`--pretend`). Real cables are pulled in tests/lab.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from ports import free_root

from harness.build import NetBuild, build_net
from harness.progress import silent
from harness.workloads.bench import BenchSpec, bench_command, bench_env

pytestmark = [pytest.mark.build, pytest.mark.timeout(400)]

RANKS = 4
HALF = (1, 20, "lo", 50)
SPEC = BenchSpec(
    bytes=1 << 20,
    chunk_bytes=4096,  # so that chains are filled in a small part of the time, and pay
    iterations=1_000_000,
    seconds=2,
    channels=2,
    timeout_s=30,
    schedule="auto",
    pretend=(HALF,),
)
BOUND_S = 8.0
"""A rank that is gone is noticed at once; one that is silent, after six seconds."""
Line = dict[str, Any]


@pytest.fixture(scope="module")
def net() -> NetBuild:
    return build_net(progress=silent)


@dataclass(frozen=True)
class Rank:
    """Its lines go to a file, so that no rank waits for one who reads another's."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    def lines(self) -> list[Line]:
        """All that are whole."""
        return [json.loads(line) for line in self.out.read_text().split("\n")[:-1]]

    def wait_for(self, index: int) -> None:
        """Until it has begun that iteration."""
        deadline = time.monotonic() + 30
        while not any(line["event"] == "progress" and line["index"] >= index for line in self.lines()):
            assert self.process.poll() is None, self.err.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def finish(self) -> int:
        return self.process.wait(60)


@dataclass(frozen=True)
class Odd:
    """What one rank is started with instead of what all are."""

    rank: int = -1
    spec: BenchSpec | None = None
    env: dict[str, str] = field(default_factory=dict)


@contextmanager
def started(
    net: NetBuild, spec: BenchSpec, folder: Path, odd: Odd = Odd(), env: dict[str, str] | None = None
) -> Iterator[list[Rank]]:
    root = free_root()
    with ExitStack() as stack:
        ranks = []
        for number in range(RANKS):
            extra = {"NCCL_HOSTID": f"h{number}", "R2CC_SIDE_IFNAME": "lo", "R2CC_EVENT_FILE": "/dev/null"}
            its = odd.spec if number == odd.rank and odd.spec else spec
            command = bench_command(net.bench, its, rank=number, ranks=RANKS, root=root, library=net.library)
            own = {"PATH": "/usr/bin:/bin", **bench_env(3, interfaces="lo", extra=extra), **(env or {})}
            own |= odd.env if number == odd.rank else {}
            out, err = folder / f"{number}.out", folder / f"{number}.err"
            stdout, stderr = stack.enter_context(out.open("wb")), stack.enter_context(err.open("wb"))
            process = stack.enter_context(subprocess.Popen(command, env=own, stdout=stdout, stderr=stderr))
            stack.callback(process.kill)
            ranks.append(Rank(process, out, err))
        yield ranks


def switches(lines: list[Line]) -> list[tuple[int, int, str, str]]:
    found = (line for line in lines if line["event"] == "schedule")
    return [(line["index"], line["epoch"], line["schedule"], line["capacities"]) for line in found]


def test_processes_switch_at_one_iteration_though_one_stood_still(net: NetBuild, tmp_path: Path) -> None:
    with started(net, SPEC, tmp_path) as ranks:
        ranks[2].wait_for(HALF[1] + 1)
        ranks[2].process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        ranks[2].process.send_signal(signal.SIGCONT)
        codes = [rank.finish() for rank in ranks]
    assert codes == [0] * RANKS, [rank.err.read_text() for rank in ranks]
    for rank in ranks:
        assert all(line["wrong_elements"] == 0 for line in rank.lines() if line["event"] == "iteration")
        assert switches(rank.lines()) == switches(ranks[0].lines())
    assert [where[1:] for where in switches(ranks[0].lines())] == [
        (0, "ring", "capacities"),
        (1, "chain", "capacities 1:0=0.5"),
    ]


def test_a_healthy_run_warns_of_nothing(net: NetBuild, tmp_path: Path) -> None:
    """Not of libibverbs either, where there is none."""
    quiet = replace(SPEC, seconds=0, iterations=3, pretend=())
    with started(net, quiet, tmp_path, env={"NCCL_DEBUG": "WARN"}) as ranks:
        codes = [rank.finish() for rank in ranks]
    assert codes == [0] * RANKS, [rank.err.read_text() for rank in ranks]
    assert [rank.err.read_text() for rank in ranks] == [""] * RANKS


PLUGIN = """
import ctypes, sys
net = ctypes.CDLL(sys.argv[1])
fields = (ctypes.c_void_p * 2).in_dll(net, "ncclNetPlugin_v11")
init = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, *[ctypes.c_void_p] * 3)(fields[1])
config, context = ctypes.c_int(-1), ctypes.c_void_p()
print([init(ctypes.addressof(context), number, ctypes.addressof(config), None, None) for number in (1, 2)])
"""


def test_the_plugin_finds_sockets_and_warns_of_nothing(net: NetBuild) -> None:
    """As stock NCCL calls it: InfiniBand is tried first."""
    env = {"PATH": "/usr/bin:/bin", "NCCL_DEBUG": "WARN", "NCCL_SOCKET_IFNAME": "lo", "R2CC_MODE": "1"}
    command = [sys.executable, "-c", PLUGIN, str(net.library)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 0]\n", "")


@pytest.mark.parametrize(
    ("odd", "says"),
    [
        (Odd(2, replace(SPEC, chunk_bytes=8192)), "--chunk-bytes is 4096 on ranks 0, 1, 3, 8192 on rank 2"),
        (Odd(0, replace(SPEC, schedule="ring")), "--schedule is ring on rank 0, auto on ranks 1, 2, 3"),
        (Odd(3, env={"R2CC_SCHEDULE": "chain"}), "R2CC_SCHEDULE is not set on ranks 0, 1, 2, chain on rank 3"),
        (Odd(1, env={"R2CC_MODE": "2"}), "R2CC_MODE is 3 on ranks 0, 2, 3, 2 on rank 1"),
    ],
)
def test_ranks_that_were_started_differently_say_so_and_end(net: NetBuild, tmp_path: Path, odd: Odd, says: str) -> None:
    with started(net, SPEC, tmp_path, odd) as ranks:
        codes = [rank.finish() for rank in ranks]
    errors = [rank.err.read_text() for rank in ranks]
    assert codes == [2] * RANKS, errors
    assert all(f"the ranks were started differently: {says}" in error for error in errors), errors
    assert not any(line["event"] in ("start", "iteration") for rank in ranks for line in rank.lines())


@pytest.mark.parametrize("victim", [0, 2])
def test_a_rank_that_dies_in_the_middle_of_a_switch_ends_all(net: NetBuild, tmp_path: Path, victim: int) -> None:
    """All others are ready for the new schedule, and wait for rank 2, which never is."""
    spec = replace(SPEC, seconds=30, slow_to_agree=(2, 600_000))
    with started(net, spec, tmp_path) as ranks:
        ranks[1].wait_for(HALF[1] + 30)
        time.sleep(0.1)
        ranks[victim].process.kill()
        codes = [rank.finish() for rank in ranks]
    assert [code for number, code in enumerate(codes) if number != victim] == [3] * (RANKS - 1)
    for number, rank in enumerate(ranks):
        assert [where[1] for where in switches(rank.lines())] == [0]
        errors = [line["message"] for line in rank.lines() if line["event"] == "error"]
        assert number == victim or (len(errors) == 1 and f"rank {victim}" in errors[0]), errors
