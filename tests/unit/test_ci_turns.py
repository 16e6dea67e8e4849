"""Two checkouts by turns: the order, what is judged, and a side that cannot run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ci.commands import ci
from ci.policy import load
from ci.turns import check, program, turns
from harness.errors import InfraError, InternalError, UsageError

STUB = """#!/bin/sh
# Stands for a checkout's r2cc: one run of a job that takes FACTOR times as long as it should.
while [ "$1" != --out ]; do shift; done
n=$(ls "$2" | wc -l)
folder=$2/20260101T0000$(printf %02d "$n")Z-nic_down
mkdir -p "$folder"
echo "{side}" >>"$2.order"
{body}
"""
BODY = """
cat >"$folder/summary.json" <<END
{"experiment": "nic_down", "verdict": "holds", "bed": "lab", "hardware": {"fingerprint": "f"}, "build_id": "SIDE",
 "arms": [{"name": "migrate", "metrics": [],
           "runs": [{"run": 0, "healthy_ms": {"median": FACTOR$((n % 7)).5}, "faults": [], "metrics": []}]}]}
END
echo "$folder"
"""
POLICY = "series:\n  - {experiment: nic_down, arm: migrate, figure: healthy_ms}\n"


def _stub(folder: Path, side: str, factor: str, body: str = BODY) -> Path:
    script = folder / side
    text = STUB.replace("{side}", side).replace("{body}", body).replace("SIDE", side).replace("FACTOR", factor)
    script.write_text(text)
    script.chmod(0o755)
    return script


def _turns(folder: Path, before: Path, after: Path, times: int = 12) -> tuple[int, dict[str, Any]]:
    (folder / "ci.yaml").write_text(POLICY)
    (folder / "x.yaml").write_text("")
    words = ["turns", str(folder / "x.yaml"), "--before", str(before), "--after", str(after), "--times", str(times)]
    words += ["--policy", str(folder / "ci.yaml"), "--store", str(folder / "runs"), "--out", str(folder / "gate.json")]
    result = CliRunner().invoke(ci, words, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, json.loads((folder / "gate.json").read_text())


def test_a_slower_build_is_caught(tmp_path: Path) -> None:
    code, judged = _turns(tmp_path, _stub(tmp_path, "main", "10"), _stub(tmp_path, "slow", "11"))
    assert (code, judged["outcome"]) == (1, "regressed")
    assert "healthy_ms: worse (+9." in judged["reasons"][0]
    order = (tmp_path / "runs.order").read_text().split()
    assert order[:6] == ["main", "slow", "slow", "main", "main", "slow"]
    assert len(order) == 24


def test_the_same_build_passes(tmp_path: Path) -> None:
    code, judged = _turns(tmp_path, _stub(tmp_path, "main", "10"), _stub(tmp_path, "same", "10"))
    assert (code, judged["outcome"]) == (0, "passed")


def test_too_few_turns_are_not_judged(tmp_path: Path) -> None:
    code, judged = _turns(tmp_path, _stub(tmp_path, "main", "10"), _stub(tmp_path, "slow", "11"), times=3)
    assert (code, judged["outcome"]) == (3, "not judged")


def test_a_side_that_cannot_run_is_named(tmp_path: Path) -> None:
    broken = _stub(tmp_path, "broken", "1", body="echo no lab here >&2; exit 3")
    with pytest.raises(InfraError, match=r"after, turn 0: exit code 3\n  \| no lab here"):
        _turns(tmp_path, _stub(tmp_path, "main", "10"), broken)
    with pytest.raises(UsageError, match="there is no r2cc in"):
        program(tmp_path)


def test_progress_has_the_numbers_that_errors_have(tmp_path: Path) -> None:
    (tmp_path / "ci.yaml").write_text(POLICY)
    (tmp_path / "x.yaml").write_text("")
    sides = ["--before", str(_stub(tmp_path, "main", "10")), "--after", str(_stub(tmp_path, "same", "10"))]
    words = ["turns", str(tmp_path / "x.yaml"), *sides, "--times", "2", "--policy", str(tmp_path / "ci.yaml")]
    said = CliRunner().invoke(ci, [*words, "--store", str(tmp_path / "runs")], standalone_mode=False).stderr
    assert [" ".join(line.split()[:-1]) for line in said.splitlines()] == [
        "before turn 0 of 0 to 1", "after turn 0 of 0 to 1", "after turn 1 of 0 to 1", "before turn 1 of 0 to 1",
    ]  # fmt: skip


def test_a_mistake_of_r2cc_is_not_run_again(tmp_path: Path) -> None:
    broken = _stub(tmp_path, "broken", "1", body="echo internal error >&2; exit 70")
    with pytest.raises(InternalError, match=r"after, turn 0: exit code 70\n  \| internal error") as caught:
        _turns(tmp_path, _stub(tmp_path, "main", "10"), broken)
    assert caught.value.exit_code == 70


def test_commands_say_all_that_is_run(tmp_path: Path) -> None:
    sides = (_stub(tmp_path, "a", "1"), _stub(tmp_path, "b", "1"))
    first = turns(sides, Path("/x.yaml"), Path("/s"), 1, ("--arms", "m"))
    assert [turn.side for turn in first] == ["before", "after"]
    assert first[0].argv[1:] == (
        "chaos", "run", "/x.yaml", "--repeats", "1", "--out", "/s", "--quiet", "--void-ok", "--arms", "m",
    )  # fmt: skip


def test_a_policy_of_something_else_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "ci.yaml").write_text(POLICY + "  - {experiment: nic_down, arm: migrate, figure: stall_ms}\n")
    file = tmp_path / "x.yaml"
    file.write_text(
        "name: nic_down\ntopology: default\nworkload: {iterations: 3}\n"
        "arms: {stock: {expect: any}, migrate: {expect: any}}\n"
    )
    rules = load(tmp_path / "ci.yaml")
    check(rules, file, None)
    with pytest.raises(UsageError, match="and not nic_down with the arms stock"):
        check(rules, file, "stock")
    file.write_text(file.read_text().replace("nic_down", "flap"))
    with pytest.raises(UsageError, match="the policy judges nic_down/migrate, and not flap"):
        check(rules, file, None)
    side = str(_stub(tmp_path, "a", "1"))
    words = ["turns", str(file), "--before", side, "--after", side, "--policy", str(tmp_path / "ci.yaml")]
    said = CliRunner().invoke(ci, [*words, "--store", str(tmp_path / "runs")], standalone_mode=False)
    assert isinstance(said.exception, UsageError) and not (tmp_path / "runs").exists()
