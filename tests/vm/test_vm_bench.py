"""The host bench between guests, over sockets and over the fork's IB transport on soft-RoCE."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from harness.repo import checkout
from harness.vmlab.lab import VmLab
from harness.vmlab.rdma import own_retry_s, rdma_env
from harness.workloads.bench import BenchSpec, bench_command, bench_env

pytestmark = [pytest.mark.vm, pytest.mark.build, pytest.mark.slow]

LIMIT_S = 90.0
PATIENT = 18
"""About a second a try: a test of exactness must not fail because the machine is busy."""


@pytest.fixture(scope="module")
def programs() -> Path:
    folder = checkout().net
    if not (folder / "r2cc_bench").is_file():
        pytest.skip("r2cc build net has not been run")
    return folder


def run(lab: VmLab, programs: Path, spec: BenchSpec, env: dict[str, str]) -> list[tuple[int, list[Any], str]]:
    """Both ranks to their end; exit code, lines and the end of stderr of each."""
    bench, library, root = programs / "r2cc_bench", programs / "libr2cc_net.so", "10.250.0.1:29500"
    commands = [bench_command(bench, spec, rank=rank, ranks=2, root=root, library=library) for rank in range(2)]
    processes = [host.spawn(command, env=env) for host, command in zip(lab.hosts.values(), commands, strict=True)]
    try:
        results = []
        for process in processes:
            assert process.stdout is not None
            lines = [json.loads(line) for line in process.stdout]
            results.append((process.wait(LIMIT_S), lines, process.stderr_tail(20)))
        return results
    finally:
        for process in processes:
            process.close()


def small(net: Literal["socket", "ib"], corrupt: tuple[int, int] | None = None) -> BenchSpec:
    return BenchSpec(bytes=1 << 20, iterations=3, warmup=1, channels=2, net=net, timeout_s=60, corrupt=corrupt)


@pytest.mark.parametrize("net", ["socket", "ib"])
def test_sums_are_exact_between_guests(lab: VmLab, programs: Path, net: Literal["socket", "ib"]) -> None:
    extra = rdma_env(timeout=PATIENT) if net == "ib" else {}
    results = run(lab, programs, small(net), bench_env(0, extra=extra))
    for code, lines, stderr in results:
        assert code == 0, stderr
        assert [line["wrong_elements"] for line in lines if line["event"] == "iteration"] == [0] * 4
        start = next(line for line in lines if line["event"] == "bench_start")
        assert start["nics"] == (["rxe0", "rxe1"] if net == "ib" else ["eth0", "eth1"])


def test_a_corrupted_sum_is_seen(lab: VmLab, programs: Path) -> None:
    results = run(lab, programs, small("ib", corrupt=(1, 1)), bench_env(0, extra=rdma_env(timeout=PATIENT)))
    assert [code for code, _lines, _stderr in results] == [0, 1]


def test_without_r2cc_a_silent_link_ends_the_job_with_the_nic_s_own_error(lab: VmLab, programs: Path) -> None:
    lab.black_hole("h1-eth0", True, "from")
    results = run(lab, programs, small("ib"), bench_env(0, extra=rdma_env()))
    assert {code for code, _lines, _stderr in results} == {3}
    assert any("IBV_WC_RETRY_EXC_ERR" in stderr for _code, _lines, stderr in results)


def test_the_time_a_nic_tries_by_itself() -> None:
    assert own_retry_s() == pytest.approx(0.47, abs=0.005)
