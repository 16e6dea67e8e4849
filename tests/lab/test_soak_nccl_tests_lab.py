"""The soak under nccl-tests, on a lab's hosts, where a stand-in prints what its programs print."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.experiment.file import load
from chaos.soak import draw
from chaos.testbed.beds import topology_of

pytestmark = [
    pytest.mark.lab,
    pytest.mark.build,
    pytest.mark.timeout(180),
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun (apt-get install openmpi-bin)"),
]
REPO = Path(__file__).parents[2]
RING = REPO / "tests" / "data" / "nccl_tests" / "ring.py"
CLI = [sys.executable, "-c", "from harness.cli import main; main()", "chaos", "soak"]
LIMIT_S = 150.0
EXPERIMENT = """\
name: nt
topology: {hosts: 2, nics: 2, rate_gbit: 0.5}
workload:
  {kind: nccl_tests, op: alltoallv, bytes: 256K, iterations: 10, cycles: 4, gpus_per_rank: 0, preload: none}
arms: {stock: {expect: any}}
"""
KINDLY = ("reset",)
"""What no program on one TCP connection survives: the stand-in has no R2CC below it."""


def soak(folder: Path, *, ring: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    programs = folder / "bin"
    programs.mkdir()
    (programs / "alltoallv_perf").symlink_to(RING)
    told = "" if ring is None else f"env: {{RING: {json.dumps(json.dumps(ring))}}}, "
    (folder / "nt.yaml").write_text(EXPERIMENT.replace("{kind:", f"{{{told}kind:"))
    known = {"R2CC_NCCL_TESTS": str(programs), "PYTHONPATH": str(REPO)}
    options = ["--seed", str(seed_without(folder, KINDLY)), "--round-s", "5", "--minutes", "0.05"]
    argv = [*CLI, "--under", str(folder / "nt.yaml"), "--arm", "stock", *options]
    return subprocess.run(
        [*argv, "--shrink-minutes", "0", "--json", "--out", str(folder / "runs")],
        env={**os.environ, **known}, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip


def seed_without(folder: Path, actions: tuple[str, ...]) -> int:
    """The first one whose first round does not do that to the only NIC that carries data."""
    (folder / "drawn.yaml").write_text(EXPERIMENT)
    own = load(folder / "drawn.yaml")
    shape = draw.own_shape(own, topology_of(own))
    for seed in range(100):
        drawn = draw.round_of(seed, 0, arm="stock", seconds=5, shapes=[shape]).faults
        if len(drawn) > 4 and not any(getattr(fault, "action", "") in actions for fault in drawn):
            return seed
    raise AssertionError("all of them do")


@pytest.mark.timed
def test_faults_strike_while_it_runs_and_each_row_is_looked_at(tmp_path: Path) -> None:
    done = soak(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert (report["outcome"], report["rounds"], report["under"]) == ("passed", 1, "nt")
    assert report["faults"] > 2
    assert report["iterations"] > 80, "more cycles than the experiment's four: a round lasts as long as its faults"
    assert report["bytes_checked"] * 10 == report["iterations"] * 262144, "one of ten, for each row and way"


def test_wrong_elements_in_a_round_are_a_failure_with_a_replay(tmp_path: Path) -> None:
    """The fifth cycle is one that only a round has."""
    done = soak(tmp_path, ring={"wrong": {"500": 3}})
    assert done.returncode == 1, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["failure"]["why"].startswith("6 wrong elements, first in iteration ")
    assert load(Path(report["failure"]["replay"])).workload.cycles > 4


def test_a_program_that_is_wrong_without_any_fault_is_no_failure_of_the_transport(tmp_path: Path) -> None:
    done = soak(tmp_path, ring={"wrong": {"100": 3}})
    assert done.returncode == 3, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert (report["outcome"], report["faults"]) == ("infrastructure", 0)
    assert report["reason"].startswith("without any fault: 6 wrong elements")
