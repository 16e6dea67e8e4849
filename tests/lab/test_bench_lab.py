"""The real bench over the real net library, between the lab's hosts: exactness, exit codes, ends, and its lines.

Nothing here judges how fast it is, except that nothing can be faster than its links.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ports import free_root

from harness.build import NetBuild, build_net
from harness.hosts import Process
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.progress import silent
from harness.workloads.bench import BenchSpec, Op, bench_command, bench_env, sampler_command

pytestmark = [pytest.mark.lab, pytest.mark.build, pytest.mark.timeout(300)]

RATE_GBIT = 0.2
RANKS = 3
ROOT = "10.250.0.1:29517"
SMALL = BenchSpec(bytes=1 << 20, iterations=4, warmup=1, channels=2, timeout_s=60)
Line = dict[str, Any]


@dataclass
class Rank:
    exit_code: int
    lines: list[Line]
    stderr: str

    def of(self, event: str) -> list[Line]:
        return [line for line in self.lines if line["event"] == event]


@pytest.fixture(scope="module")
def net() -> NetBuild:
    return build_net(progress=silent)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.up(Topology(hosts=RANKS, nics=2, rate_gbit=RATE_GBIT)) as made:
        yield made


@pytest.fixture
def held_stdin() -> Iterator[int]:
    """A stdin that stays open and says nothing."""
    reading, writing = os.pipe()
    yield reading
    os.close(writing)
    os.close(reading)


def start(lab: Lab, net: NetBuild, spec: BenchSpec, mode: int = 0, **extra: str) -> list[Process]:
    """Every rank on its own host."""
    env = bench_env(mode, extra=extra)
    return [
        host.spawn(bench_command(net.bench, spec, rank=rank, ranks=RANKS, root=ROOT, library=net.library), env=env)
        for rank, host in enumerate(lab.hosts.values())
    ]


def finish(process: Process) -> Rank:
    """Every byte of stdout must be part of a JSON line: json.loads is the check."""
    assert process.stdout is not None
    lines = [json.loads(line) for line in process.stdout]
    return Rank(process.wait(60), lines, process.stderr_tail(20))


def run(lab: Lab, net: NetBuild, spec: BenchSpec, mode: int = 0, **extra: str) -> list[Rank]:
    return [finish(process) for process in start(lab, net, spec, mode, **extra)]


@pytest.mark.parametrize("op", ["allreduce", "stream", "alltoall"])
def test_every_operation_is_exact(lab: Lab, net: NetBuild, op: Op) -> None:
    spec = BenchSpec(op=op, bytes=3_000_004, iterations=3, warmup=1, channels=2, connections_per_peer=2, timeout_s=60)
    for rank, result in enumerate(run(lab, net, spec)):
        assert result.exit_code == 0, result.stderr
        assert [line["index"] for line in result.of("iteration")] == [-1, 0, 1, 2]
        assert {line["wrong_elements"] for line in result.of("iteration")} == {0}
        (end,) = result.of("bench_end")
        assert (end["rank"], end["completed"], end["wrong_elements"]) == (rank, 3, 0)


def test_lines_are_the_contracts(lab: Lab, net: NetBuild) -> None:
    ranks = run(lab, net, SMALL)
    for result in ranks:
        (begin,) = result.of("bench_start")
        assert begin["nics"] == ["eth0", "eth1"]
        ends = {(c["direction"], c["channel"], c["nic"]) for c in begin["connections"]}
        assert ends == {(d, c, f"eth{c}") for d in ("send", "recv") for c in (0, 1)}
        receiving = {c["id"] for c in begin["connections"] if c["direction"] == "recv"}
        for iteration in result.of("iteration"):
            seconds = (iteration["end_ns"] - iteration["start_ns"]) / 1e9
            least_s = SMALL.bytes * 8 * 2 * (RANKS - 1) / RANKS / (2 * RATE_GBIT * 1e9)
            assert seconds > 0.5 * least_s, "faster than the links allow (buckets may be full at the start)"
            here = [line for line in result.of("delivery") if line["index"] == iteration["index"]]
            assert {line["connection"] for line in here} == receiving
            for line in here:
                assert line["start_ns"] == iteration["start_ns"]
                assert sum(line["gaps_us"]) * 1000 <= iteration["end_ns"] - iteration["start_ns"]


def test_memory_is_the_ranks_own_and_not_of_who_started_it(net: NetBuild) -> None:
    """getrusage would say what the starting process had, in every mode alike."""
    held = bytearray(b"x") * (256 << 20)
    peak, root = [0, 0], free_root()
    words = [bench_command(net.bench, SMALL, rank=rank, ranks=2, root=root, library=net.library) for rank in (0, 1)]
    env = {**os.environ, **bench_env(0), "NCCL_SOCKET_IFNAME": "lo"}
    ranks = [subprocess.Popen(each, env=env, stdout=subprocess.PIPE, text=True) for each in words]
    for rank, process in enumerate(ranks):
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        (end,) = [line for line in map(json.loads, out.splitlines()) if line["event"] == "bench_end"]
        peak[rank] = end["max_rss_bytes"]
    assert len(held) == 256 << 20 and all(SMALL.bytes < each < len(held) / 2 for each in peak)


def test_long_delivery_lists_come_in_parts(lab: Lab, net: NetBuild) -> None:
    spec = BenchSpec(bytes=1 << 20, iterations=1, warmup=0, channels=1, chunk_bytes=512, slots=32, timeout_s=60)
    for result in run(lab, net, spec):
        parts = result.of("delivery")
        assert [line["part"] for line in parts] == list(range(len(parts)))
        assert len(parts) > 1
        chunk_elements = 512 // 4
        block_elements = [(1 << 18) // RANKS + (1 if b < (1 << 18) % RANKS else 0) for b in range(RANKS)]
        chunks = [-(-n // chunk_elements) for n in block_elements]
        assert sum(len(line["gaps_us"]) for line in parts) in {2 * sum(chunks) - 2 * c for c in chunks} | {
            2 * (RANKS - 1) * chunks[0]
        }


def test_corruption_is_caught_where_and_when_it_happened(lab: Lab, net: NetBuild) -> None:
    spec = BenchSpec(bytes=1 << 20, iterations=4, warmup=1, channels=2, timeout_s=60, corrupt=(1, 2))
    ranks = run(lab, net, spec)
    assert [rank.exit_code for rank in ranks] == [0, 1, 0]
    wrong = [(line["index"], line["wrong_elements"]) for line in ranks[1].of("iteration") if line["wrong_elements"]]
    assert wrong == [(2, 1)]


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("mode", [0, 1])
def test_a_killed_rank_ends_the_others(lab: Lab, net: NetBuild, victim: int, mode: int) -> None:
    """Long before a collective's own limit, which outlasts the test's."""
    spec = BenchSpec(bytes=1 << 20, iterations=100_000, warmup=0, channels=2, timeout_s=600)
    processes = start(lab, net, spec, mode)
    for process in processes:
        assert process.stdout is not None
        while json.loads(process.stdout.readline())["event"] != "iteration":
            pass
    processes[victim].kill()
    for rank, process in enumerate(processes):
        if rank == victim:
            continue
        result = finish(process)
        assert result.exit_code == 3
        assert len(result.of("error")) == 1
    processes[victim].close()


def test_ncclinfo_text_stays_out_of_the_lines(lab: Lab, net: NetBuild) -> None:
    """`finish` fails on a line that is no JSON; NCCL's logger prints to stdout unless it is stopped."""
    for result in run(lab, net, SMALL, mode=1, NCCL_DEBUG="INFO"):
        assert result.exit_code == 0
        assert "NET" in result.stderr


def test_an_interface_that_does_not_exist_is_an_error_of_every_rank(lab: Lab, net: NetBuild) -> None:
    for result in run(lab, net, SMALL, NCCL_SOCKET_IFNAME="=nosuch"):
        assert result.exit_code == 3
        assert len(result.of("error")) == 1


def test_bad_usage_is_exit_code_2(net: NetBuild) -> None:
    bad = subprocess.run([net.bench, "--rank", "x"], capture_output=True, text=True, timeout=60)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "--rank takes a whole number" in bad.stderr
    bad = subprocess.run([net.sampler, "--interval-ms", "0"], capture_output=True, text=True, timeout=60)
    assert bad.returncode == 2


def test_the_sampler_sees_links_and_bytes_and_ends_on_sigterm(lab: Lab, net: NetBuild, held_stdin: int) -> None:
    host = lab.hosts["h0"]
    process = host.spawn(sampler_command(net.sampler, nics=["eth0", "eth1"], cpu=True), stdin=held_stdin)
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    assert set(first["nics"]) == {"eth0", "eth1"}
    host.run(["ip", "link", "set", "eth1", "down"])
    host.run(["ip", "link", "set", "eth1", "up"])
    lines: list[Line] = []
    while not [line for line in lines if line["event"] == "link" and line["nic"] == "eth1" and line["up"]]:
        lines.append(json.loads(process.stdout.readline()))  # the kernel may take a second to say that it is up
    process.send_signal(signal.SIGTERM)
    lines += [json.loads(line) for line in process.stdout]
    assert process.wait(60) == 0
    assert [line["up"] for line in lines if line["event"] == "link" and line["nic"] == "eth1"][:2] == [False, True]
    assert all(0 <= line["busy"] <= 1 for line in lines if line["event"] == "cpu")
    assert set(next(line for line in reversed(lines) if line["event"] == "sample")["nics"]) == {"eth0", "eth1"}


def test_the_sampler_ends_with_its_stdin(net: NetBuild) -> None:
    done = subprocess.run([net.sampler], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert all(json.loads(line)["event"] == "sample" for line in done.stdout.splitlines())


def test_the_sampler_s_bytes_are_those_of_the_operation(lab: Lab, net: NetBuild, held_stdin: int) -> None:
    host = lab.hosts["h1"]
    sampler = host.spawn(sampler_command(net.sampler, nics=["eth0", "eth1"]), stdin=held_stdin)
    assert sampler.stdout is not None
    first = sampler.stdout.readline()  # before anything is sent
    ranks = run(lab, net, SMALL)
    assert [rank.exit_code for rank in ranks] == [0] * RANKS
    sampler.terminate()
    samples = [line for line in map(json.loads, [first, *sampler.stdout]) if line["event"] == "sample"]
    payload = (SMALL.iterations + SMALL.warmup) * SMALL.bytes * 2 * (RANKS - 1) / RANKS / 2  # a NIC's half
    for nic in ("eth0", "eth1"):
        sent = samples[-1]["nics"][nic]["tx_bytes"] - samples[0]["nics"][nic]["tx_bytes"]
        assert payload <= sent <= 1.1 * payload  # headers, acknowledgements, retransmissions


def test_the_spec_s_defaults_are_the_program_s(net: NetBuild) -> None:
    text = subprocess.run([net.bench, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
    spec = BenchSpec()
    for value in (
        spec.bytes,
        spec.iterations,
        spec.warmup,
        spec.channels,
        spec.chunk_bytes,
        spec.slots,
        spec.timeout_s,
    ):
        assert f"({value})" in text
    assert Path(net.bench).name == "r2cc_bench"
