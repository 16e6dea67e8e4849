"""The gate on real runs in the lab: the same build passes, one that is slowed is caught."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(400)]

CLI = [sys.executable, "-c", "from harness.cli import main; main()"]
EXPERIMENT = {
    "name": "small",
    "topology": {"hosts": 3, "nics": 2, "rate_gbit": 0.2},
    "workload": {"bytes": 2 * 2**20, "iterations": 8, "channels": 2, "warmup": 1, "timeout_s": 60},
    "arms": {"balance": {"expect": "holds"}},
}
POLICY = "fewest_runs: 6\nseries:\n  - {experiment: small, arm: balance, figure: healthy_ms}\n"
SLOWED = """#!/bin/sh
# This checkout, with NICs that are 7 % slower.
sed "s/rate_gbit: 0.2$/rate_gbit: 0.186/" "$3" >"$3.slow.yaml"
file=$3.slow.yaml
shift 3
exec "PYTHON" -c "from harness.cli import main; main()" chaos run "$file" "$@"
"""
PLAIN = """#!/bin/sh
exec "PYTHON" -c "from harness.cli import main; main()" "$@"
"""


def _judged(folder: Path, after: str) -> tuple[int, dict[str, object]]:
    for name, text in (("plain", PLAIN), ("slowed", SLOWED)):
        (folder / name).write_text(text.replace("PYTHON", sys.executable))
        (folder / name).chmod(0o755)
    (folder / "small.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    (folder / "ci.yaml").write_text(POLICY)
    words = [
        "ci",
        "turns",
        str(folder / "small.yaml"),
        "--before",
        str(folder / "plain"),
        "--after",
        str(folder / after),
    ]
    words += ["--times", "6", "--policy", str(folder / "ci.yaml"), "--store", str(folder / "runs"), "--json"]
    done = subprocess.run([*CLI, *words], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_slowed_build_is_caught(tmp_path: Path) -> None:
    code, judged = _judged(tmp_path, "slowed")
    assert (code, judged["outcome"]) == (1, "regressed"), judged


def test_the_same_build_passes(tmp_path: Path) -> None:
    code, judged = _judged(tmp_path, "plain")
    assert (code, judged["outcome"]) == (0, "passed"), judged
