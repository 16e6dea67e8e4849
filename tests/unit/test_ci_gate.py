"""The regression gate: what passes, what is caught, and what it refuses to judge."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from ci.commands import ci
from ci.policy import load
from harness.errors import InputErrors, UsageError
from harness.schemas import problems
from reports.store.store import opened

POLICY = """\
schema: 1
series:
  - {experiment: nic_down, arm: migrate, figure: healthy_ms}
  - {experiment: nic_down, arm: migrate, figure: busbw, size_bytes: 1048576}
"""


def _run(store: Path, day: int, factor: float = 1.0, repeats: int = 12, **changes: Any) -> str:
    """A run of `repeats` repeats, with 1 % of noise."""
    random = np.random.default_rng(day)
    name = f"202601{day:02}T000000Z-nic_down"
    runs = []
    for number in range(repeats):
        busbw = {"name": "busbw", "unit": "GBps", "size_bytes": 1 << 20, "bound": None}
        busbw |= {"value": 0.5 / factor * (1 + 0.01 * random.standard_normal())}
        healthy = 100 * factor * (1 + 0.01 * random.standard_normal())
        runs.append({"run": number, "healthy_ms": {"median": healthy}, "faults": [], "metrics": [busbw]})
    summary = {
        "experiment": "nic_down",
        "verdict": "holds",
        "bed": "lab",
        "hardware": {"fingerprint": "f"},
        "build_id": "b",
    }
    (store / name).mkdir(parents=True)
    whole = summary | changes | {"arms": [{"name": "migrate", "runs": runs, "metrics": []}]}
    (store / name / "summary.json").write_text(json.dumps(whole))
    return name


class Bench:
    """The commands on a store of their own."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "runs"
        self.policy = folder / "ci.yaml"
        self.policy.write_text(POLICY)
        self.out = folder / "gate.json"

    def gate(self, *words: str) -> tuple[int, dict[str, Any]]:
        every = ["gate", "--policy", str(self.policy), "--store", str(self.store), "--out", str(self.out), *words]
        result = CliRunner().invoke(ci, every, standalone_mode=False)
        if result.exception is not None:
            raise result.exception
        judged = json.loads(self.out.read_text())
        assert problems("ci_gate", judged) == []
        assert result.return_value == judged["exit_code"]
        return judged["exit_code"], judged

    def report(self, kind: str) -> str:
        return CliRunner().invoke(ci, ["report", str(self.out), "--format", kind]).output


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_the_first_run_is_recorded_and_later_ones_are_judged(bench: Bench) -> None:
    code, judged = bench.gate(_run(bench.store, 1))
    assert (code, judged["outcome"]) == (0, "recorded")
    code, judged = bench.gate(_run(bench.store, 2))
    assert (code, judged["outcome"]) == (0, "passed")
    assert [line["outcome"] for line in judged["series"]] == ["no difference shown"] * 2
    code, judged = bench.gate(_run(bench.store, 3, factor=1.05))
    assert (code, judged["outcome"]) == (1, "regressed")
    assert [line["outcome"] for line in judged["series"]] == ["worse", "worse"]
    assert "healthy_ms: worse (+4." in judged["reasons"][0]
    assert bench.gate(_run(bench.store, 4, factor=0.9))[1]["series"][0]["outcome"] == "better"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"repeats": 11}, "12 figures before and 11 after; 12 of each are needed"),
        ({"verdict": "failed"}, "says nothing: failed"),
        ({"verdict": "void"}, "12 figures before and 0 after"),
    ],
)
def test_what_is_not_judged(bench: Bench, changes: dict[str, Any], why: str) -> None:
    bench.gate(_run(bench.store, 1))
    code, judged = bench.gate(_run(bench.store, 2, **changes))
    assert (code, judged["outcome"]) == (3, "not judged")
    assert why in " ".join(judged["reasons"])


def test_different_hardware_has_a_baseline_of_its_own(bench: Bench) -> None:
    bench.gate(_run(bench.store, 1))
    code, judged = bench.gate(_run(bench.store, 2, factor=2.0, hardware={"fingerprint": "other"}))
    assert (code, judged["outcome"]) == (0, "recorded")
    both = bench.gate("20260101", "20260102")[1]
    assert both["outcome"] in ("recorded", "not judged")


def test_what_failed_does_not_become_a_baseline(bench: Bench) -> None:
    code, judged = bench.gate(_run(bench.store, 1, verdict="failed"))
    assert (code, judged["outcome"]) == (3, "not judged")
    with opened(bench.store) as store:
        assert store.runs()[0].tags == ()


def test_noisy_series_are_shown_and_not_judged(bench: Bench) -> None:
    bench.policy.write_text(POLICY + "quarantine: [nic_down/migrate/healthy_ms]\n")
    bench.gate(_run(bench.store, 1))
    code, judged = bench.gate(_run(bench.store, 2, factor=1.05))
    assert code == 1
    assert {line["name"]: line["outcome"] for line in judged["series"]} == {
        "nic_down/migrate/healthy_ms": "in quarantine",
        "nic_down/migrate/busbw@1048576": "worse",
    }
    bench.policy.write_text(POLICY + "noisy: 0.001\n")
    code, judged = bench.gate("20260102")
    assert (code, {line["outcome"] for line in judged["series"]}) == (0, {"in quarantine"})


def test_a_history_is_searched_for_lasting_changes(bench: Bench) -> None:
    for day in range(1, 13):
        _run(bench.store, day, repeats=3)
    assert bench.gate("--history")[1]["outcome"] == "passed"
    for day in range(13, 21):
        _run(bench.store, day, factor=1.06, repeats=3)
    code, judged = bench.gate("--history")
    assert (code, judged["outcome"]) == (1, "regressed")
    assert "worse since 8 runs ago (+5." in judged["reasons"][0]
    _run(bench.store, 28, hardware={"fingerprint": "new"})
    code, judged = bench.gate("--history")
    assert (code, judged["outcome"]) == (0, "recorded")
    assert judged["reasons"] == ["the history is shorter than 12 runs: it is recorded"]
    bench.policy.write_text(POLICY.replace("nic_down", "nic_dwon"))
    code, judged = bench.gate("--history")
    assert (code, judged["outcome"]) == (3, "not judged")
    assert judged["reasons"] == ["no run has a figure of these series"]
    assert ET.fromstring(bench.report("junit")).get("errors") == "1"


def test_baselines_are_tags(bench: Bench) -> None:
    first, second = _run(bench.store, 1), _run(bench.store, 2)
    at, run = ["--store", str(bench.store)], CliRunner()
    assert "baseline/main" in run.invoke(ci, ["baseline", "record", first, *at]).output
    assert run.invoke(ci, ["baseline", "record", second, "--replace", *at]).exit_code == 0
    shown = json.loads(run.invoke(ci, ["baseline", "show", "--json", *at]).stdout)
    assert [each["id"] for each in shown["runs"]] == [second]
    assert isinstance(run.invoke(ci, ["baseline", "show", "--baseline", "a b", *at]).exception, UsageError)


def test_a_pull_request_and_a_ci_server_are_told(bench: Bench) -> None:
    bench.gate(_run(bench.store, 1))
    bench.gate(_run(bench.store, 2, factor=1.05))
    shown = bench.report("md")
    assert "✗ R2CC gate: regressed" in shown
    assert "| nic_down/migrate/healthy_ms | worse | +4." in shown
    suite = ET.fromstring(bench.report("junit"))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "2", "0")
    bench.gate(_run(bench.store, 3, repeats=2))
    assert ET.fromstring(bench.report("junit")).get("errors") == "1"
    bench.out.write_text("{}")
    assert isinstance(CliRunner().invoke(ci, ["report", str(bench.out)]).exception, UsageError)


def test_every_mistake_of_a_policy_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "ci.yaml"
    file.write_text("schema: 1\nseries:\n  - {experiment: a, arm: b}\nalpha: 2\nsurprise: 1\n")
    with pytest.raises(InputErrors) as caught:
        load(file)
    assert [error.split(": ")[0] for error in caught.value.errors] == [f"{file}:{line}" for line in (3, 4, 5)]
    file.write_text(POLICY.replace("healthy_ms", "happiness"))
    with pytest.raises(InputErrors, match=r"ci.yaml:3: no figure 'happiness' \(known: after_ms"):
        load(file)
    file.write_text("schema: 1\nseries:\n" + "  - {experiment: a, arm: b, figure: busbw}\n" * 5)
    with pytest.raises(InputErrors, match="at most 4"):
        load(file)
    with pytest.raises(UsageError, match="cannot read"):
        load(tmp_path / "absent")


def test_runs_of_another_experiment_are_refused(bench: Bench) -> None:
    other = _run(bench.store, 1, experiment="flap")
    with pytest.raises(UsageError, match="is of the experiment flap; the policy judges nic_down"):
        bench.gate(other)
    with pytest.raises(UsageError, match="flap"):
        bench.gate(_run(bench.store, 2), other)
    with opened(bench.store) as store:
        assert {run.tags for run in store.runs()} == {()}, "nothing was recorded"


def test_runs_without_a_figure_that_is_judged_are_refused(bench: Bench) -> None:
    bench.policy.write_text(POLICY.replace("migrate", "balance"))
    with pytest.raises(
        UsageError, match="has no figure of nic_down/balance/healthy_ms, nic_down/balance/busbw@1048576"
    ):
        bench.gate(_run(bench.store, 1))


def test_a_misspelt_baseline_is_none(bench: Bench) -> None:
    first = _run(bench.store, 1)
    with pytest.raises(UsageError, match="there is no baseline 'mian'") as caught:
        bench.gate(first, "--baseline", "mian")
    assert "there are: none" in str(caught.value.hint)
    bench.gate(first)
    with pytest.raises(UsageError, match="there is no baseline 'mian'") as caught:
        bench.gate(_run(bench.store, 2), "--baseline", "mian")
    assert "--baseline main" in str(caught.value.hint)
    at = ["--store", str(bench.store), "--baseline", "mian"]
    assert isinstance(CliRunner().invoke(ci, ["baseline", "show", *at]).exception, UsageError)


def test_the_same_run_again_stays_what_it_is(bench: Bench) -> None:
    first = _run(bench.store, 1)
    bench.gate(first)
    code, judged = bench.gate(first)
    assert (code, judged["outcome"]) == (0, "recorded")
    assert f"no other run of this hardware than {first}" in judged["reasons"][0]


@pytest.mark.parametrize("verdict", ["failed", "void"])
def test_what_says_nothing_is_recorded_as_no_baseline(bench: Bench, verdict: str) -> None:
    name = _run(bench.store, 1, verdict=verdict)
    found = CliRunner().invoke(ci, ["baseline", "record", name, "--store", str(bench.store)]).exception
    assert isinstance(found, UsageError) and verdict in str(found)


def test_a_history_of_void_runs_is_recorded(bench: Bench) -> None:
    _run(bench.store, 1, verdict="void")
    code, judged = bench.gate("--history")
    assert (code, judged["outcome"]) == (0, "recorded")
    assert judged["reasons"] == ["1 run is recorded, and it is void: the machine was too busy"]


def test_a_history_is_of_the_experiments_that_are_judged(bench: Bench) -> None:
    _run(bench.store, 1)
    _run(bench.store, 2, experiment="flap", hardware={"fingerprint": "other"})
    assert bench.gate("--history")[1]["outcome"] == "recorded"


@pytest.mark.parametrize("out", ["/proc/x", "/proc/self/x", "ci.yaml/gate.json"])
def test_a_judgement_that_cannot_be_written_changes_nothing(bench: Bench, out: str) -> None:
    run = _run(bench.store, 1)
    with pytest.raises(UsageError, match=r"cannot write .*(/proc/|ci\.yaml/gate)"):
        bench.gate(run, "--out", out if out.startswith("/") else str(bench.store.parent / out))
    with opened(bench.store) as store:
        assert store.runs()[0].tags == ()


def test_a_judgement_on_our_own_output_is_there(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    """The file behind it is not replaced by another one, which what is printed later would not be in."""
    words = ["gate", _run(bench.store, 1), "--policy", str(bench.policy), "--store", str(bench.store)]
    result = CliRunner().invoke(ci, [*words, "--out", "/dev/stdout"], standalone_mode=False)
    assert result.return_value == 0, result.output
    assert json.loads(capfd.readouterr().out)["outcome"] == "recorded"


def test_the_folder_of_a_judgement_is_made(bench: Bench) -> None:
    bench.out = bench.store.parent / "nowhere" / "gate.json"
    assert bench.gate(_run(bench.store, 1))[1]["outcome"] == "recorded"
