"""A fault and a workload of other packages (those of docs/howto) in a real run; the report needs neither of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from plugin_package import installed_by_pip, of_page

pytestmark = [pytest.mark.lab, pytest.mark.build]

EXPERIMENT = """\
name: ring
topology: {hosts: 2, nics: 2}
workload: {kind: token_ring, iterations: 60, token_bytes: 64, timeout_s: 20.0}
faults:
  - {id: small, kind: small_mtu, host: h1, nic: eth1, mtu: 4000, at: {iteration: 10}, duration_s: 0.3}
arms: {migrate: {expect: holds}}
"""


def r2cc(*words: str, path: str = "") -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", "from harness.cli import main; main()", *words]
    return subprocess.run(program, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=100)


def test_they_run_and_are_judged_like_ours(tmp_path: Path) -> None:
    pages = ("add-a-fault.md", "add-a-workload.md")
    path = os.pathsep.join(str(installed_by_pip(of_page(page), tmp_path / page)) for page in pages)
    file = tmp_path / "ring.yaml"
    file.write_text(EXPERIMENT)
    ran = r2cc("chaos", "run", str(file), "--out", str(tmp_path / "runs"), "--void-ok", "--json", path=path)
    assert ran.returncode == 0, ran.stderr
    summary = json.loads(ran.stdout)
    (arm,) = summary["arms"]
    assert (summary["verdict"], arm["runs"][0]["wrong_elements"], arm["runs"][0]["iterations"]) == ("holds", 0, 60)
    (folder,) = (tmp_path / "runs").iterdir()
    phases = [
        line["phase"]
        for line in map(json.loads, (folder / "journal.jsonl").read_text().splitlines())
        if line["event"] == "fault" and line["kind"] == "small_mtu"
    ]
    assert phases == ["armed", "injected", "active", "reverted", "verified"]
    report = r2cc("report", str(folder))
    assert report.returncode == 0, report.stderr
