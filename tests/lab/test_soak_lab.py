"""The soak for real: with a bench that lies after a fault it must find that, and shrink it to that one fault."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waits import LIMIT_S, until

from chaos.experiment.file import load
from harness.lab import state

pytestmark = [pytest.mark.timed, pytest.mark.lab, pytest.mark.build, pytest.mark.timeout(200)]

ROOT = Path(__file__).resolve().parents[2]
CLI = [sys.executable, "-c", "from harness.cli import main; main()", "chaos"]
SEED = "111"
"""Its first round takes the carrier of h1's eth1 away, by a link_down among seven faults."""


def call(*words: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CLI, *words], cwd=ROOT, capture_output=True, text=True, timeout=timeout_s)


@pytest.mark.slow
def test_a_lie_after_a_fault_is_found_shrunk_and_replayed(tmp_path: Path) -> None:
    options = ["--minutes", "0.1", "--round-s", "5", "--seed", SEED, "--shrink-minutes", "0.7", "--out", str(tmp_path)]
    ran = call("soak", *options, "--corrupt-carrier", "1:eth1:1", "--json", timeout_s=150)
    assert ran.returncode == 1, ran.stderr
    report = json.loads(ran.stdout)
    assert report.outcome == "failed"
    assert "wrong elements" in report.failure.why
    assert report.failure.reproduced
    replay = Path(report.failure.replay)
    (fault,) = load(replay).faults
    assert fault.kind in ("flap", "link_down", "rail_down")
    assert fault.rail == 1 or "h1:eth1" in fault.nics
    again = call("run", str(replay), "--out", str(tmp_path), "--quiet", timeout_s=60)
    assert again.returncode == 1, again.stderr


def test_ctrl_c_reports_and_leaves_nothing(tmp_path: Path) -> None:
    running = subprocess.Popen(
        [*CLI, "soak", "--minutes", "5", "--seed", SEED, "--out", str(tmp_path)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:

        def struck() -> bool:
            assert running.poll() is None, running.communicate()
            return any('"active"' in path.read_text() for path in tmp_path.glob("*/round-*.jsonl"))

        until(struck, "no fault is active")
        os.kill(running.pid, signal.SIGINT)
        _, shown = running.communicate(timeout=LIMIT_S)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 130
    assert "interrupted: " in shown
    (path,) = tmp_path.glob("*/soak.json")
    assert json.loads(path.read_text())["outcome"] == "interrupted"
    assert not [lab for lab in state.living() if lab["owner_pid"] == running.pid]
