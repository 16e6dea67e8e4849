"""`r2cc chaos campaign`: each cell runs once, whatever comes between; what is done stays done."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from campaign_double import TWO, prepare
from chaos_double import ScriptedBench, Switch, bed
from click.testing import CliRunner, Result

from chaos.campaign.load import load
from chaos.campaign.run import Limits, Runner
from chaos.campaign.state import resume
from chaos.commands.chaos import chaos
from harness.errors import InfraError, R2ccError, UsageError
from harness.hosts.local import LocalHost
from harness.schemas import problems

pytestmark = pytest.mark.timeout(100)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Cells without a fault and without a limit on a time: a machine busy with other tests changes no verdict."""
    folder = prepare(tmp_path, monkeypatch)
    text = re.sub(r"(?m)^(faults|  -|hypothesis).*\n", "", (folder / "e.yaml").read_text())
    (folder / "e.yaml").write_text(text)
    return folder


@dataclass
class Scripted:
    """What the cells' experiments run on, and which were run."""

    bench: ScriptedBench = field(default_factory=lambda: ScriptedBench(iteration_ms=20))
    ran: list[str] = field(default_factory=list)
    reported: list[Path] = field(default_factory=list)
    before: Callable[[str], None] = lambda name: None


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """Cells are told apart by how many iterations they have: 8 is the first, 7 the second."""
    now = Scripted()

    def opened(site: Any, experiment: Any) -> Any:
        name = {8: "first", 7: "second"}.get(experiment.workload.iterations, str(experiment.workload.iterations))
        now.ran.append(name)
        now.before(name)
        return bed(Switch())

    monkeypatch.setattr("chaos.testbed.beds.open_bed", opened)
    monkeypatch.setattr("chaos.testbed.workbench.built", lambda quiet, layout: (now.bench, {"build_id": "b"}))
    monkeypatch.setattr("harness.plugins.after_run", lambda path, quiet: now.reported.append(path))
    return now


REFUSED = "4 GPUs are needed, and torch sees 0 here"


def call(*words: str) -> Result:
    result = CliRunner().invoke(chaos, ["campaign", "c.yaml", "--out", "out", *words], standalone_mode=False)
    if Path("out/campaign.json").exists():
        assert problems("campaign", state()) == []
    return result


def state() -> dict[str, Any]:
    value: dict[str, Any] = json.loads(Path("out/campaign.json").read_text())
    return value


def cells(key: str) -> dict[str, Any]:
    return {cell["name"]: cell[key] for cell in state()["cells"]}


def again(scripted: Scripted, *words: str) -> tuple[Result, list[str]]:
    """Another call, and what it ran."""
    scripted.ran.clear()
    return call(*words), list(scripted.ran)


def test_every_cell_runs_once(scripted: Scripted) -> None:
    result = call()
    assert result.return_value == 0, result.output
    assert scripted.ran == ["first", "second"]
    assert cells("state") == {"first": "done", "second": "done"}
    assert cells("directory") == {"first": "cells/first", "second": "cells/second"}
    summary = json.loads(Path("out/cells/second/summary.json").read_text())
    assert problems("summary", summary) == []
    assert [arm["name"] for arm in summary["arms"]] == ["migrate"]
    assert summary["arms"][0]["runs"][0]["iterations"] == 7
    assert [path.parent.name for path in scripted.reported] == ["first", "second"]
    result, ran = again(scripted)
    assert ran == [] and result.return_value == 0
    assert not list(Path("out/.running").iterdir())


def test_what_is_shown(scripted: Scripted) -> None:
    result = call("--minutes", "60")
    lines = result.stdout.splitlines()
    assert re.match(r"first   holds +\d+ s  healthy \d+\.\d+ ms  0 wrong", lines[0]), lines
    assert lines[-1] == "out" and len(lines) == 3
    assert re.search(r"\[2/2\] second: scripted \(about 0\.\d min, (59|60)\.\d min left\)", result.stderr)
    assert "[2/2] second: holds after" in result.stderr
    assert "iteration   6" in result.stderr, "the run's own progress"
    assert "[1/2] first: done before (holds)" in call().stderr
    assert call("--quiet").stderr == ""


def test_json_is_the_state_with_what_is_left(scripted: Scripted) -> None:
    value = json.loads(call("--json", "--only", "f*").stdout)
    assert value["left"] == [] and value["exit_code"] == 0
    assert [cell["state"] for cell in value["cells"]] == ["done", "pending"]
    value = json.loads(call("--json", "--minutes", "0.00001").stdout)
    assert value["left"] == ["second"] and value["exit_code"] == 0
    assert scripted.ran == ["first"]


@pytest.mark.parametrize("where", ["first", "second"])
def test_it_goes_on_after_an_interruption(scripted: Scripted, where: str) -> None:
    def interrupt(name: str) -> None:
        if name == where:
            raise KeyboardInterrupt

    scripted.before = interrupt
    assert call().return_value == 130
    assert cells("state")[where] == "pending" and cells("attempts")[where] == 0
    assert list(Path("out/failed").iterdir()) == [Path(f"out/failed/{where}-1")], "it says what happened until then"
    scripted.before = lambda name: None
    result, ran = again(scripted)
    assert result.return_value == 0
    assert ran == (["first", "second"] if where == "first" else ["second"])


def test_an_interruption_outside_of_the_run_itself(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the build: nothing began. Of the report: the run is complete, and counts."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("chaos.testbed.workbench.built", stop)
        assert call().return_value == 130
    assert cells("state") == {"first": "pending", "second": "pending"}
    with monkeypatch.context() as patch:
        patch.setattr("harness.plugins.after_run", stop)
        assert call().return_value == 130
    assert cells("state") == {"first": "done", "second": "pending"}
    assert again(scripted)[1] == ["second"]


def test_what_a_killed_call_left_is_put_aside(scripted: Scripted) -> None:
    left = Path("out/.running/second/20260101T000000Z-scripted")
    left.mkdir(parents=True)
    (left / "journal.jsonl").write_text("")
    assert call().return_value == 0
    assert Path("out/failed/second-1/journal.jsonl").exists()
    assert cells("attempts") == {"first": 0, "second": 0}


def test_a_failed_cell_is_run_again_three_times(scripted: Scripted) -> None:
    def die(name: str) -> None:
        words = ["--die-at", "2"] if name == "first" else []
        scripted.bench = ScriptedBench(iteration_ms=20)
        if words:
            raise InfraError("the bed broke")

    scripted.before = die
    for attempt in (1, 2, 3):
        result, ran = again(scripted)
        assert result.return_value == 3
        assert ran == (["first", "second"] if attempt == 1 else ["first"])
        assert (cells("state")["first"], cells("attempts")["first"]) == ("failed", attempt)
        assert Path(f"out/failed/first-{attempt}/summary.json").exists()
    assert cells("directory")["first"] == "failed/first-3"
    result, ran = again(scripted)
    assert ran == [] and result.return_value == 3
    assert "failed 3 times; --retry runs it again" in result.stderr
    assert re.search(r"^first +failed .* the bed broke$", result.stdout, re.MULTILINE)
    scripted.before = lambda name: None
    result, ran = again(scripted, "--retry")
    assert ran == ["first"] and result.return_value == 0
    assert (cells("state")["first"], cells("verdict")["first"]) == ("done", "holds")


def test_what_could_not_begin_is_no_attempt(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_gpus(*_: object, **__: object) -> None:
        raise InfraError(REFUSED)

    with monkeypatch.context() as patch:
        patch.setattr("chaos.testbed.workbench.built", no_gpus)
        result = call()
    assert result.return_value == 3
    assert cells("attempts") == {"first": 0, "second": 0} and cells("directory")["first"] is None
    assert "could not be started: 4 GPUs" in result.stderr
    assert "[2/2] second: could not be started, as first" in result.stderr
    assert result.stdout.splitlines()[:3] == ["first   failed", "second  failed", f"2 failed: {REFUSED}"]
    assert [text.count(REFUSED) for text in (result.stdout, result.stderr)] == [1, 1], "a reason is said once"
    assert again(scripted)[1] == ["first", "second"]


def test_a_deviated_cell_is_done_and_counts(scripted: Scripted) -> None:
    scripted.bench = ScriptedBench(iteration_ms=20, extra={(1, 0): ["--wrong-at", "2"]})
    result = call("--only", "first")
    assert result.return_value == 1
    assert (cells("state")["first"], cells("verdict")["first"]) == ("done", "deviated")
    scripted.bench = ScriptedBench(iteration_ms=20)
    result, ran = again(scripted)
    assert ran == ["second"] and result.return_value == 1, "the first still deviates"
    assert again(scripted, "--only", "second")[0].return_value == 0


def test_void_counts_only_where_that_is_allowed(scripted: Scripted) -> None:
    limit = "hypothesis: {undisturbed_within: 9.0}\n"
    Path("e.yaml").write_text(Path("e.yaml").read_text() + limit)
    scripted.bench = ScriptedBench(iteration_ms=20, cpu=0.95)
    assert call("--only", "first").return_value == 3
    assert (cells("state")["first"], cells("verdict")["first"]) == ("failed", "void")
    assert call("--only", "first", "--void-ok").return_value == 0
    assert (cells("state")["first"], cells("verdict")["first"]) == ("done", "void")


def test_only_changed_cells_run_again(scripted: Scripted) -> None:
    call()
    Path("c.yaml").write_text(TWO.replace("set: {workload.iterations: 7}", "set: {workload.iterations: 9}"))
    result, ran = again(scripted)
    assert ran == ["9"] and result.return_value == 0
    assert json.loads(Path("out/cells/second/summary.json").read_text())["arms"][0]["runs"][0]["iterations"] == 9
    assert json.loads(Path("out/old/second-1/summary.json").read_text())["arms"][0]["runs"][0]["iterations"] == 7


def test_cells_that_are_taken_out_and_put_back_are_still_done(scripted: Scripted) -> None:
    call()
    Path("c.yaml").write_text("".join(TWO.splitlines(keepends=True)[:-1]))
    call()
    assert list(cells("state")) == ["first"] and [cell["name"] for cell in state()["dropped"]] == ["second"]
    Path("c.yaml").write_text(TWO)
    result, ran = again(scripted)
    assert ran == [] and result.return_value == 0


def test_a_cell_whose_results_are_gone_runs_again(scripted: Scripted) -> None:
    call()
    Path("out/cells/first").rename("elsewhere")
    assert again(scripted)[1] == ["first"]


def test_dry_run_starts_and_writes_nothing(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    result = call("--dry-run")
    assert result.return_value == 0 and scripted.ran == [] and not Path("out").exists()
    assert result.stdout.splitlines() == [
        "first: would run",
        "  e.yaml: 1 x migrate on lab",
        "second: would run",
        "  e.yaml: 1 x migrate on lab",
        "  workload.iterations: 7",
        "nothing was started",
    ]
    call("--only", "first")
    first, second = json.loads(call("--dry-run", "--json").stdout)["cells"]
    assert (first["why_not"], second["why_not"]) == ("done before (holds)", None)
    assert second["set"] == {"workload.iterations": 7}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "third*"], "--only third*: two has no such cell"),
        (["--out", "e.yaml"], "cannot make e.yaml"),
        (["--out", "other"], "other holds the campaign two-more, not two"),
        (["--out", "broken"], "cannot use broken/campaign.json"),
        (["--out", "newer"], "of another version"),
    ],
)
def test_bad_usage_starts_nothing(scripted: Scripted, words: list[str], message: str) -> None:
    for name, text in {
        "other": '{"schema": 1, "name": "two-more", "cells": [], "dropped": []}',
        "broken": '{"schema": 1, "name": "two", "cells": [{}], "dropped": []}',
        "newer": '{"schema": 2}',
    }.items():
        Path(name).mkdir()
        Path(name, "campaign.json").write_text(text)
    result = call(*words)
    if isinstance(result.exception, UsageError):
        assert message in result.exception.message
    else:
        assert "is a file" in str(result.exception), "click found it first"
    assert scripted.ran == []


def test_two_calls_at_once_are_one_too_many(scripted: Scripted) -> None:
    from harness.files.lock import exclusive

    with exclusive(Path("out/.lock"), "testing"):
        result = call()
    assert isinstance(result.exception, R2ccError) and "running this campaign" in str(result.exception)
    assert scripted.ran == []


def test_a_report_that_fails_costs_no_run(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path, quiet: bool) -> None:
        raise InfraError("no paper")

    with monkeypatch.context() as patch:
        patch.setattr("harness.plugins.after_run", broken)
        result = call()
    assert result.return_value == 0
    assert "warning: no paper" in result.stderr
    with monkeypatch.context() as patch:
        patch.setattr("harness.plugins.after_campaign", broken)
        result = call()
    assert isinstance(result.exception, InfraError)
    assert result.stdout.splitlines()[-1] == "out", "the results are shown anyway"


# --- time, with a clock of its own ---


@dataclass
class Clock:
    """Moves when a cell runs: by as many minutes as `takes` says."""

    takes: dict[str, float]
    now_s: float = 0.0
    ran: list[str] = field(default_factory=list)

    def run_cell(self, cell: Any, out: Path) -> None:
        self.now_s += self.takes[cell.name] * 60
        self.ran.append(cell.name)
        made = out / "20260101T000000Z-x"
        made.mkdir(parents=True)
        summary = {"verdict": "holds", "exit_code": 0, "reasons": [], "build_id": "b", "arms": []}
        (made / "summary.json").write_text(json.dumps(summary))


def timed(clock: Clock, minutes: float, estimates: dict[str, float | None]) -> Runner:
    entries = [
        f"  - {{experiment: e.yaml, name: {name}{f', minutes: {least}' if least else ''}}}"
        for name, least in estimates.items()
    ]
    Path("c.yaml").write_text("name: timed\ncells:\n" + "\n".join(entries))
    campaign = load(Path("c.yaml"))
    Path("out").mkdir(exist_ok=True)
    runner = Runner(
        campaign, resume(Path("out"), campaign), Limits(minutes), clock.run_cell, print, lambda: clock.now_s
    )
    runner.run()
    return runner


def test_no_cell_is_started_that_would_not_end_in_time() -> None:
    clock = Clock({"a": 4, "b": 1, "c": 4, "d": 1})
    estimates: dict[str, float | None] = {"a": 5, "b": 1, "c": 5.5, "d": 1}
    timed(clock, 10, estimates)
    assert clock.ran == ["a", "b", "d"], "the next that fits is taken"
    assert clock.now_s <= 10 * 60
    timed(clock, 10, estimates)
    assert clock.ran == ["a", "b", "d", "c"]


def test_the_median_of_what_was_done_is_the_estimate_of_what_has_none() -> None:
    clock = Clock({"a": 2, "b": 4, "c": 3, "d": 1})
    timed(clock, 8.5, {"a": None, "b": None, "c": None, "d": None})
    assert clock.ran == ["a", "b"], "6 of 8.5 minutes are gone, and 3 is the median"
    runner = timed(clock, 20, {"a": None, "b": None, "c": None, "d": None})
    assert clock.ran == ["a", "b", "c", "d"]
    assert runner.estimate_minutes(runner.campaign.cells[0]) == 2.5


def test_the_report_is_made_through_the_plugin(scripted: Scripted) -> None:
    result = call("--only", "first")
    assert "report: out/report.html" in result.stderr
    assert "[first](cells/first/report.html)" in Path("out/report.md").read_text()
    assert LocalHost().read_text("out/report.html").startswith("<!DOCTYPE html>")
