"""A server of inference over two hosts of the lab, and requests to it while the network between them is cut."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import with_word

pytestmark = [pytest.mark.lab, pytest.mark.build]

STANDIN = Path(__file__).parents[1] / "data" / "inference" / "standin.py"
EXPERIMENT = """\
name: standin
topology: {{hosts: 2, nics: 2, rate_gbit: 1.0}}
workload:
  kind: inference
  server: command
  argv: [{python}, {standin}, --peer, 10.1.0.2, --token-ms, "25", --trouble, "{trouble}"]
  iterations: 40
  rate: 15.0
  warmup: 1
  output_tokens: 20  # half a second: some request is always under way, and only then is a silence counted
  timeout_s: 10.0
faults:
  - {fault}
hypothesis: {{failed_requests_max: 0}}
arms: {arms}
"""


HOLE = "{id: hole, kind: black_hole, host: h1, nic: eth0, at: {iteration: 20}, duration_s: 0.6}"
STOPPED = "{id: stopped, kind: stop, rank: 1, at: {iteration: 20}, duration_s: 0.6}"


def run(
    folder: Path, arms: str, trouble: str = "", fault: str = HOLE
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    file, own = folder / "standin.yaml", own_standin(folder)
    own.symlink_to(STANDIN)
    file.write_text(EXPERIMENT.format(python=sys.executable, standin=own, trouble=trouble, arms=arms, fault=fault))
    program = [sys.executable, "-c", "from harness.cli import main; main()"]
    words = ["chaos", "run", str(file), "--out", str(folder / "runs"), "--void-ok", "--json"]
    ran = subprocess.run([*program, *words], capture_output=True, text=True, timeout=150)
    (found,) = (folder / "runs").iterdir()
    return ran, {"summary": json.loads((found / "summary.json").read_text()), "folder": found}


def own_standin(folder: Path) -> Path:
    """A name that no test beside this one has in its processes."""
    return folder / "standin.py"


def left_over(folder: Path) -> list[int]:
    """Processes of this test's stand-in that still run."""
    return with_word(str(own_standin(folder)))


def test_tokens_wait_while_the_network_swallows_them_and_no_request_fails(tmp_path: Path) -> None:
    ran, made = run(tmp_path, "{stock: {expect: any}, balance: {expect: holds, hypothesis: {identical: true}}}")
    assert ran.returncode == 0, ran.stderr
    for arm in made["summary"]["arms"]:
        (one,) = arm["runs"]
        figures = {metric["name"]: metric["value"] for metric in one["metrics"]}
        assert (one["completed"], one["iterations"], figures["failed_requests"]) == (True, 40, 0)
        assert one["faults"][0]["hit"]
        assert figures["longest_silence"] > 500, "the stand-in has no R2CC: it waits for the hole to end"
        assert figures["itl_healthy_p50"] < 100 < figures["output_throughput"] * 10
        assert all(check["outcome"] == "holds" for check in [*one["checks"], *arm["checks"]])
    lines = [json.loads(line) for line in (made["folder"] / "journal.jsonl").read_text().splitlines()]
    began = {
        line["index"]: line["start_ns"] for line in lines if line["event"] == "progress" and line["arm"] == "stock"
    }
    struck = next(line["before_ns"] for line in lines if line["event"] == "fault" and line["phase"] == "injected")
    assert began[20] <= struck < began[20] + 500_000_000, "a request's number says when"
    page = (made["folder"] / "report.html").read_text()
    assert "Time to first token" in page
    assert not left_over(tmp_path)


def test_a_fault_on_a_rank_strikes_the_server_itself(tmp_path: Path) -> None:
    ran, made = run(tmp_path, "{stock: {expect: any}}", fault=STOPPED)
    assert ran.returncode == 0, ran.stderr
    (one,) = made["summary"]["arms"][0]["runs"]
    figures = {metric["name"]: metric["value"] for metric in one["metrics"]}
    assert one["completed"]
    assert figures["longest_silence"] > 500


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        ("dies@start", "the server ended with exit code 9 before it was ready"),
        ("dies@rank1", "rank1 on h1 ended with exit code 3"),
        ("http_500@0", "the first requests fail: HTTP 500"),
    ],
)
def test_a_server_that_does_not_serve_is_one_error_and_leaves_nothing(tmp_path: Path, trouble: str, why: str) -> None:
    ran, made = run(tmp_path, "{stock: {expect: any}}", trouble)
    assert ran.returncode == 3, ran.stderr
    assert why in " ".join(made["summary"]["reasons"])
    assert not left_over(tmp_path)
