"""Golden command lines and environments of the host bench and the sampler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.workloads.bench import BenchSpec, bench_command, bench_env, sampler_command, stray_settings

NET = Path("build/net")
GOLDEN = (
    "build/net/r2cc_bench --rank 2 --ranks 4 --root 10.250.0.1:29500 --op allreduce --bytes 67108864 --iterations 40 "
    "--warmup 2 --channels 4 --connections-per-peer 1 --chunk-bytes 131072 --slots 8 --seed 1 --net socket "
    "--timeout-s 120 --library build/net/libr2cc_net.so"
)
CHANGED = (
    "--op alltoall --bytes 4096 --iterations 3 --warmup 0 --channels 2 --connections-per-peer 5 --chunk-bytes 1024 "
    "--slots 16 --seed 9 --net ib --timeout-s 7 --library build/net/libr2cc_net.so --corrupt 1:2 --nonce"
)


def command(spec: BenchSpec, rank: int = 2, unset: list[str] | None = None) -> list[str]:
    return bench_command(
        NET / "r2cc_bench",
        spec,
        rank=rank,
        ranks=4,
        root="10.250.0.1:29500",
        library=NET / "libr2cc_net.so",
        unset=unset or [],
    )


def test_bench_command_with_the_contracts_defaults() -> None:
    assert command(BenchSpec()) == GOLDEN.split()


def test_bench_command_with_everything_changed() -> None:
    spec = BenchSpec("alltoall", 4096, 3, 0, 2, 5, 1024, 16, 9, "ib", 7, (1, 2), "a run's own; $text")
    assert command(spec, rank=0)[7:] == [*CHANGED.split(), "a run's own; $text"]


def test_lateness_time_and_self_tests() -> None:
    spec = BenchSpec(corrupt_carrier="1:eth1:3", seconds=9, late=((2, 0, 50), (3, 7, 1000)))
    assert command(spec) == [
        *GOLDEN.split(), "--corrupt-carrier", "1:eth1:3", "--seconds", "9", "--late", "2:0:50", "--late", "3:7:1000",
    ]  # fmt: skip


def test_what_emulated_machines_and_merged_nics_need() -> None:
    assert command(BenchSpec(idle_us=2000, merge_nics=2)) == [*GOLDEN.split(), "--idle-us", "2000", "--merge-nics", "2"]


def test_ranks_that_only_the_net_tells() -> None:
    assert command(BenchSpec(told_by="net")) == [*GOLDEN.split(), "--told-by", "net"]


def test_all_reduces_in_a_row() -> None:
    assert command(BenchSpec(in_a_row=16)) == [*GOLDEN.split(), "--in-a-row", "16"]


def test_a_schedule_and_its_self_tests() -> None:
    spec = BenchSpec(
        schedule="auto", connect="switch", pretend=((1, 20, "lo", 50), (1, 90, "lo", 100)), slow_to_agree=(2, 400)
    )
    assert command(spec) == [
        *GOLDEN.split(), "--schedule", "auto", "--connect", "switch", "--slow-to-agree", "2:400",
        "--pretend", "1:20:lo:50", "--pretend", "1:90:lo:100",
    ]  # fmt: skip


def test_a_path_with_a_space_stays_one_word() -> None:
    words = bench_command(
        Path("/my dir/r2cc_bench"), BenchSpec(), rank=0, ranks=2, root="h:1", library=Path("/my dir/lib.so")
    )
    assert words[0] == "/my dir/r2cc_bench"
    assert words[-1] == "/my dir/lib.so"


@pytest.mark.parametrize("rank", [-1, 4])
def test_a_rank_that_does_not_exist_is_refused(rank: int) -> None:
    with pytest.raises(UsageError, match=f"rank {rank} of 4"):
        command(BenchSpec(), rank=rank)


def test_sampler_commands() -> None:
    program = NET / "r2cc_sampler"
    assert sampler_command(program) == ["build/net/r2cc_sampler", "--interval-ms", "10"]
    assert sampler_command(program, nics=["eth0", "eth1"], interval_ms=5, cpu=True) == [
        *["build/net/r2cc_sampler", "--interval-ms", "5", "--nics", "eth0,eth1", "--cpu"]
    ]


def test_environment_of_the_stock_arm() -> None:
    assert bench_env(0) == {
        "NCCL_DEBUG": "WARN",
        "NCCL_SOCKET_IFNAME": "eth",
        "R2CC_EVENT_FILE": "/proc/self/fd/1",
        "R2CC_MODE": "0",
        "R2CC_SIDE_IFNAME": "mgmt0",
    }


def test_an_arm_may_set_more_and_wins() -> None:
    env = bench_env(1, interfaces="lo", topology_file=Path("t.xml"), extra={"R2CC_HOLD_MS": "5", "NCCL_DEBUG": "INFO"})
    assert (env["R2CC_MODE"], env["NCCL_SOCKET_IFNAME"], env["R2CC_TOPO_FILE"]) == ("1", "lo", "t.xml")
    assert (env["R2CC_HOLD_MS"], env["NCCL_DEBUG"]) == ("5", "INFO")


@pytest.mark.parametrize("mode", [-1, 4])
def test_a_mode_that_does_not_exist_is_refused(mode: int) -> None:
    with pytest.raises(UsageError, match="R2CC_MODE"):
        bench_env(mode)


def test_stray_settings_do_not_reach_the_command() -> None:
    """Checked with a real process: `env -u` is what takes the variables away."""
    inherited = {**os.environ, "NCCL_ALGO": "Tree", "R2CC_HOLD_MS": "1", "R2CC_MODE": "3"}
    env = bench_env(0)
    stray = stray_settings(inherited, env)
    assert {"NCCL_ALGO", "R2CC_HOLD_MS"} <= set(stray)
    assert "R2CC_MODE" not in stray
    prefix = command(BenchSpec(), unset=stray)[: 1 + 2 * len(stray)]
    script = "import os; print(sorted(n for n in os.environ if n[:5] in ('NCCL_', 'R2CC_')))"
    seen = subprocess.run(
        [*prefix, sys.executable, "-c", script], env={**inherited, **env}, capture_output=True, text=True, check=True
    )
    assert seen.stdout.strip() == str(sorted(env))


@given(st.dictionaries(st.text(), st.text()))
def test_nothing_else_is_stray(inherited: dict[str, str]) -> None:
    assert all(name[:5] in ("NCCL_", "R2CC_") for name in stray_settings(inherited, {}))


def test_importing_it_is_light() -> None:
    script = "import sys, harness.workloads.bench; print('pydantic' in sys.modules, 'pyroute2' in sys.modules)"
    seen = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert seen.stdout.split() == ["False", "False"]
