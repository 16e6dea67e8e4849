"""The workflow templates' own steps, run by bash in two clones of this checkout, as in CI (docs/howto/ci.md).

What a server does besides (`uses:`, where artifacts go) is done here by hand; what takes a GPU is named in LEFT_OUT.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))
from checkouts import copy_built, copy_files

from harness.schemas import problems

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(900)]

POLICY = "ci/policies/lab.yaml"
FEWEST = 4
"""Runs a side with which the gate judges at all: one minute instead of three."""
LEFT_OUT = {
    ".venv/bin/r2cc build nccl": "takes nvcc",
    ".venv/bin/r2cc chaos run experiments/gpu/": "takes GPUs",
}
"""Lines of the nights that do not run here, and why."""


def git(folder: Path, *words: str) -> None:
    own = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *own, *words], check=True, capture_output=True, timeout=60)


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository with the branches main, which is this checkout, and change, whose policy asks for fewer runs."""
    made = copy_files(tmp_path / "origin")
    git(made, "init", "--quiet", "--initial-branch", "main")
    git(made, "add", "--all")
    git(made, "commit", "--quiet", "-m", "main")
    git(made, "switch", "--quiet", "--create", "change")
    policy = made / POLICY
    policy.write_text(policy.read_text().replace("fewest_runs: 12", f"fewest_runs: {FEWEST}"))
    git(made, "commit", "--quiet", "--all", "-m", "change")
    return made


def _template(checkout: Path, name: str) -> Any:
    return yaml.safe_load((checkout / "ci" / "templates" / name).read_text())


def _clone(origin: Path, where: Path, branch: str) -> Path:
    """As runners do: this branch alone, without its history."""
    git(origin.parent, "clone", "--quiet", "--depth", "1", "--branch", branch, origin.as_uri(), str(where))
    copy_built(where)
    return where


def _bash(lines: str | Sequence[str], folder: Path, **env: str) -> int:
    """A step: ended by its first command that fails."""
    script = lines if isinstance(lines, str) else "\n".join(lines)
    return subprocess.run(
        ["bash", "-e", "-c", script], cwd=folder, env={**os.environ, **env}, timeout=600, check=False
    ).returncode


def _actions(job: Mapping[str, Any], workspace: Path, **env: str) -> Iterator[tuple[str, int]]:
    """(step, exit code) of a job's shell steps; after one that failed only those that always run."""
    failed = False
    for step in job["steps"]:
        if "run" not in step or (failed and step.get("if") != "always()"):
            continue
        code = _bash(step["run"], workspace / step.get("working-directory", "."), **env)
        failed = failed or code != 0
        yield step["name"], code


def _without_gpu(lines: Sequence[str]) -> list[str]:
    """Those of a night that run here; every entry of LEFT_OUT must have left one out."""
    asked = {word: [line for line in lines if line.startswith(word)] for word in LEFT_OUT}
    assert all(asked.values()), asked
    return [line for line in lines if not line.startswith(tuple(LEFT_OUT))]


def _judged(checkout: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((checkout / "gate.json").read_text())
    assert problems("ci_gate", found) == []
    return found


def test_github_actions(origin: Path, tmp_path: Path) -> None:
    after = _clone(origin, tmp_path / "after", "change")
    _clone(origin, tmp_path / "before", "main")
    jobs = _template(after, "github.yml")["jobs"]
    summary = tmp_path / "summary.md"
    env = {"GITHUB_STEP_SUMMARY": str(summary), "R2CC_CI_TIMES": str(FEWEST)}
    codes = dict(_actions(jobs["lab"], tmp_path, **env))
    judged = _judged(after)
    assert (codes, judged["outcome"]) == (dict.fromkeys(codes, 0), "passed"), judged
    assert len(codes) == 3
    assert len(list((after / "runs").glob("*/summary.json"))) == 2 * FEWEST
    assert "### ✓ R2CC gate: passed" in summary.read_text()
    suite = ET.parse(after / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "0", "0")

    steps = [line for step in jobs["night"]["steps"] if "run" in step for line in step["run"].splitlines()]
    assert {step.get("if") for step in jobs["night"]["steps"][-2:]} == {"always()"}
    store = {"R2CC_STORE": str(after / "runs"), "GITHUB_STEP_SUMMARY": str(summary)}
    night = {line: _bash(line, after, **store) for line in _without_gpu(steps)}
    gate = next(line for line in night if " ci gate " in line)
    assert night == {line: 3 if line == gate else 0 for line in night}, "no run of ddp is in this store"
    assert _judged(after)["reasons"] == ["no run has a figure of these series"]
    assert "### ? R2CC gate: not judged" in summary.read_text()


def test_gitlab(origin: Path, tmp_path: Path) -> None:
    """With too few runs to judge: what is said then reaches the server, too."""
    project = _clone(origin, tmp_path / "project", "change")
    job = _template(project, "gitlab.yml")["r2cc-lab"]
    env = {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main", "R2CC_CI_TIMES": "1"}
    worktree = next(number for number, line in enumerate(job["script"]) if "worktree add" in line)
    assert _bash(job["script"][: worktree + 1], project, **env) == 0
    copy_built(project / "before")
    assert _bash(job["script"][worktree + 1 :], project, **env) == 3
    assert _bash(job["after_script"], project, **env) == 0
    judged = _judged(project)
    assert judged["outcome"] == "not judged"
    assert f"1 figures before and 1 after; {FEWEST} of each are needed" in judged["reasons"][0]
    assert ET.parse(project / "junit.xml").getroot().get("errors") == "1"
    assert all((project / path).exists() for path in job["artifacts"]["paths"])
    night = _template(project, "gitlab.yml")["r2cc-night"]
    store = {"R2CC_STORE": str(project / "runs")}
    assert [_bash(line, project, **store) for line in _without_gpu(night["script"])] == [0, 0, 3]
    assert _bash(night["after_script"], project, **store) == 0
