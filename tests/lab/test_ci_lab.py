"""The gate on real runs in the lab: the same build passes, one that was made slower is caught."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))
from checkouts import copy_built, copy_files

from harness.repo import checkout

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(600)]

MAIN = "from harness.cli import main; main()"
EXPERIMENT = {
    "name": "small",
    "topology": {"hosts": 3, "nics": 2, "rate_gbit": 0.2},
    "workload": {"bytes": 2 * 2**20, "iterations": 8, "channels": 2, "warmup": 1, "timeout_s": 60},
    "arms": {"balance": {"expect": "holds"}},
}
POLICY = "fewest_runs: 6\nseries:\n  - {experiment: small, arm: balance, figure: healthy_ms}\n"
SLOWER = Path(__file__).parents[1] / "data" / "slower_send.cc"
"""Linked into the second build, its send() holds a host to 93 % of what its two NICs can do."""


def _program(path: Path, root: Path) -> Path:
    """The `r2cc` of a checkout, run by this Python."""
    words = ["env", f"PYTHONPATH={root}", sys.executable, "-P", "-c", MAIN]
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    path.chmod(0o755)
    return path


def _judged(folder: Path, after: Path) -> tuple[int, dict[str, object]]:
    (folder / "small.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    (folder / "ci.yaml").write_text(POLICY)
    before = _program(folder / "before", checkout().root)
    words = ["ci", "turns", str(folder / "small.yaml"), "--before", str(before), "--after", str(after)]
    words += ["--times", "6", "--policy", str(folder / "ci.yaml"), "--store", str(folder / "runs"), "--json"]
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *words], capture_output=True, text=True, timeout=500, check=False
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_slowed_build_is_caught(tmp_path: Path) -> None:
    changed = copy_files(tmp_path / "changed checkout")
    copy_built(changed)
    shutil.copy(SLOWER, changed / "r2cc_patches" / "src" / "data" / "slower_send.cc")
    code, judged = _judged(tmp_path, _program(tmp_path / "after", changed))
    assert (code, judged["outcome"]) == (1, "regressed"), judged
    builds = {json.loads(each.read_text())["build_id"] for each in (tmp_path / "runs").glob("*/summary.json")}
    assert len(builds) == 2


def test_the_same_build_passes(tmp_path: Path) -> None:
    code, judged = _judged(tmp_path, _program(tmp_path / "after", checkout().root))
    assert (code, judged["outcome"]) == (0, "passed"), judged
