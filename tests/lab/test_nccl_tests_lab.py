"""nccl-tests as a workload under mpirun on a lab's hosts, where a stand-in prints what its programs print."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from strikes import assert_struck_in

from chaos.record.journal import read

pytestmark = [
    pytest.mark.lab,
    pytest.mark.build,
    pytest.mark.timeout(180),
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun (apt-get install openmpi-bin)"),
]
REPO = Path(__file__).parents[2]
RING = REPO / "tests" / "data" / "nccl_tests" / "ring.py"
CLI = [sys.executable, "-c", "from harness.cli import main; main()"]
LIMIT_S = 120.0
EXPERIMENT = """\
name: nt
topology: {hosts: 2, nics: 2, rate_gbit: 0.5}
workload:
  {kind: nccl_tests, op: alltoallv, bytes: 256K, iterations: 10, cycles: 12, gpus_per_rank: 0, preload: none,
   ranks_per_host: 2}
faults:
  - {id: cable, kind: link_down, host: h1, nic: eth0, at: {iteration: 65, fraction: 0.5}, duration_s: 1.0}
arms: {stock: {expect: any}}
"""


def run(folder: Path, *words: str, ring: dict[str, Any] | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    programs = folder / "bin"
    programs.mkdir()
    (programs / "alltoallv_perf").symlink_to(RING)
    (folder / "nt.yaml").write_text(EXPERIMENT)
    known = {"R2CC_NCCL_TESTS": str(programs), "RING": json.dumps(ring or {}), "PYTHONPATH": str(REPO)}
    argv = [*CLI, "chaos", "run", str(folder / "nt.yaml"), "--out", str(folder / "runs"), "--void-ok", *words]
    settings = () if ring is None else ("--set", f"workload.env.RING={json.dumps(json.dumps(ring))}")
    return subprocess.run(
        [*argv, *settings], env={**os.environ, **known, **env}, capture_output=True, text=True, timeout=LIMIT_S,
        check=False,
    )  # fmt: skip


def summary(folder: Path) -> dict[str, Any]:
    (found,) = (folder / "runs").iterdir()
    return json.loads((found / "summary.json").read_text())["arms"][0]["runs"][0]  # type: ignore[no-any-return]


@pytest.mark.timed
def test_a_cable_strikes_the_iteration_that_was_wanted(tmp_path: Path) -> None:
    """Slurm's variables are those of an allocation on one host, which is not to be looked at.

    Rows are long: between two of them the program does not time what it does, and a late strike may fall there.
    """
    rows = ("workload.iterations=40", "workload.cycles=3", "faults.0.at={iteration: 100, fraction: 0.5}")
    slurm = {"SLURM_JOBID": "1", "SLURM_JOB_NODELIST": "h0", "SLURM_NODELIST": "h0", "SLURM_TASKS_PER_NODE": "1"}
    done = run(tmp_path, *(word for each in rows for word in ("--set", each)), **slurm)
    assert done.returncode == 0, done.stdout + done.stderr
    found = summary(tmp_path)
    assert (found["completed"], found["iterations"], found["wrong_elements"]) == (True, 240, 0)
    (fault,) = found["faults"]
    assert fault["longest_ms"] > 900
    (busbw,) = (metric for metric in found["metrics"] if metric["name"] == "busbw")
    assert (busbw["size_bytes"], busbw["value"] > 0) == (262144, True)
    (folder,) = (tmp_path / "runs").iterdir()
    lines = list(read(folder / "journal.jsonl"))
    assert_struck_in(lines, 80, fault["at_iteration"])
    ranks = [line for line in lines if line["event"] == "command" and line.get("name", "").startswith("rank")]
    assert sorted((line["host"], line["name"]) for line in ranks) == [
        ("h0", "rank0"), ("h0", "rank1"), ("h1", "rank2"), ("h1", "rank3"),
    ]  # fmt: skip
    assert not [line for line in lines if "SLURM" in json.dumps(line)], "the JSON has the environment, the journal not"
    assert not Path(ranks[0]["env"]["R2CC_OUT"]).parent.exists()


@pytest.mark.timed
def test_a_stall_of_what_the_program_does_not_time_is_seen(tmp_path: Path) -> None:
    """The cable strikes behind the last iteration of a row, where twenty operations are not timed: it hit (it was said
    to have missed). An earlier one is the longest (4.7 ms: what stalled was counted beside that, which was not struck).
    """
    ring = {"checked": 20, "slow": {"75": 15}}
    done = run(tmp_path, "--set", "faults.0.at={iteration: 79, fraction: 0.99}", ring=ring)
    assert done.returncode == 0, done.stdout + done.stderr
    (fault,) = summary(tmp_path)["faults"]
    assert (fault["hit"], fault["at_iteration"] >= 60, fault["longest_ms"] > 900) == (True, True, True)


def test_wrong_elements_are_found(tmp_path: Path) -> None:
    done = run(tmp_path, ring={"wrong": {"100": 3}})
    assert done.returncode == 1, done.stdout + done.stderr
    assert summary(tmp_path)["wrong_elements"] == 6


def test_a_json_that_was_cut_short_leaves_the_mean_of_a_row(tmp_path: Path) -> None:
    done = run(tmp_path, ring={"torn": True})
    assert done.returncode == 0, done.stdout + done.stderr
    assert summary(tmp_path)["iterations"] == 240


def test_a_program_that_dies_says_its_last_words(tmp_path: Path) -> None:
    done = run(tmp_path, "--set", "faults=[]", ring={"die_after": 0})
    assert done.returncode == 3
    assert "Test failure common.cu:1" in done.stdout + done.stderr
