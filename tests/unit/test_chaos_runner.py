"""The runner, driven by a scripted workload: what it starts, what it survives, and what it leaves behind."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest
import yaml
from chaos_double import ScriptedBench, Switch, bed, experiment
from waits import LIMIT_S

from chaos.experiment.file import loads
from chaos.experiment.model import Experiment
from chaos.record.journal import read
from chaos.record.live import Display, Plain
from chaos.run import runner
from chaos.testbed.beds import Bed
from harness.errors import LabError
from harness.files import rundir
from harness.files.rundir import RunDir
from harness.schemas import plain, problems

pytestmark = pytest.mark.timeout(100)


class Ran:
    """One finished experiment and what it left."""

    def __init__(self, summary: dict[str, Any], out: RunDir, switch: Switch, shown: str) -> None:
        self.summary, self.out, self.switch, self.shown = summary, out, switch, shown
        self.lines = list(read(out.journal))

    def events(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]

    @property
    def run(self) -> dict[str, Any]:
        return dict(self.summary["arms"][0]["runs"][0])


def execute(folder: Path, exp: Experiment | None = None, bench: ScriptedBench | None = None, **options: Any) -> Ran:
    switch, out, shown = Switch(), rundir.create(folder, "scripted"), io.StringIO()
    exp = exp or experiment()
    request = runner.Request(
        list(exp.arms), bench or ScriptedBench(), {"build_id": "b"}, lambda: bed(switch), **options
    )
    summary = runner.run(exp, request, out, Plain(shown))
    ran = Ran(plain(summary), out, switch, shown.getvalue())
    assert not switch.down, "the fault must be undone, whatever happened"
    assert_consistent(ran)
    return ran


def assert_consistent(ran: Ran) -> None:
    """What holds for every run directory: schemas, no process left, the verdict last."""
    for line in ran.lines:
        assert problems("journal", line) == [], line
    assert problems("summary", ran.summary) == []
    assert json.loads((ran.out.path / "summary.json").read_text()) == ran.summary
    assert ran.lines[-1]["event"] == "verdict"
    assert ran.lines[-1]["verdict"] == ran.summary["verdict"]
    assert not [child for child in psutil.Process().children() if "scripted_bench" in " ".join(child.cmdline())]


def test_a_whole_run(tmp_path: Path) -> None:
    """On a busy machine the fault may be late by half an iteration."""
    ran = execute(tmp_path, experiment(iterations=8), bench=ScriptedBench(iteration_ms=500))
    assert (ran.summary["verdict"], ran.summary["exit_code"]) == ("holds", 0)
    assert ran.run["iterations"] == 8
    (fault,) = ran.run["faults"]
    assert (fault["hit"], fault["at_iteration"]) == (True, 4)
    spans = [(line["start_ns"], line["end_ns"]) for line in ran.events("iteration") if line["index"] == 4]
    begin, end = spans[0]
    assert begin + (end - begin) * 0.3 < fault["onset_ns"], "asked for: half of it"
    assert (fault["reverted_ns"] - fault["onset_ns"]) / 1e6 > 145, "asked for: 150 ms, and never less"
    assert ran.run["bytes_per_nic"]["h1"]["eth0"]["rx_bytes"] > 0
    names = sorted(path.name for path in ran.out.raw.iterdir())
    assert names == [f"migrate-0-{name}.stderr" for name in ("rank0", "rank1", "sampler-h0", "sampler-h1")]


def test_the_run_directory_reproduces_the_experiment(tmp_path: Path) -> None:
    exp = experiment()
    ran = execute(tmp_path, exp)
    assert loads((ran.out.path / "experiment.yaml").read_text(), tmp_path / "e.yaml") == exp
    environment = json.loads((ran.out.path / "environment.json").read_text())
    assert environment["build"] == {"build_id": "b"}
    assert environment["hardware"] == ran.summary["hardware"]


def test_no_secret_reaches_the_run_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cret-value")
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    ran = execute(tmp_path)
    texts = {path: path.read_text() for path in ran.out.path.rglob("*") if path.is_file()}
    assert not [path for path, text in texts.items() if "s3cret-value" in text]
    assert '"NCCL_DEBUG": "INFO"' in texts[ran.out.path / "environment.json"]


def test_arms_are_interleaved_and_told_apart_in_the_journal(tmp_path: Path) -> None:
    exp = experiment(iterations=6, arms="{stock: {expect: any}, migrate: {expect: any}}", repeats=2)
    ran = execute(tmp_path, exp, ScriptedBench(iteration_ms=20))
    order = [(line["arm"], line["run"], line["mode"]) for line in ran.events("run_start")]
    assert order == [("stock", 0, 0), ("migrate", 0, 1), ("stock", 1, 0), ("migrate", 1, 1)]
    assert {line["run"] for line in ran.events("iteration") if line["arm"] == "stock"} == {0, 1}
    modes = {line["arm"]: line["env"]["R2CC_MODE"] for line in ran.events("command") if line.get("name") == "rank0"}
    assert modes == {"stock": "0", "migrate": "1"}


@pytest.mark.parametrize(
    ("busy_until", "runs", "verdict"), [(1, 2, "holds"), (2, 3, "holds"), (9, 4, "void"), (0, 2, "holds")]
)
def test_more_repeats_where_a_busy_machine_leaves_the_medians_open(
    tmp_path: Path, busy_until: int, runs: int, verdict: str
) -> None:
    """Two repeats asked for: one void leaves half of them, two leave none; as many more at most are run."""

    class Busy(ScriptedBench):
        started = 0

        def sampler(self, nics: Sequence[str], *, cpu: bool, interval_ms: int = 10) -> list[str]:
            Busy.started += cpu
            return ScriptedBench(cpu=0.95 if Busy.started <= busy_until else 0.4).sampler(nics, cpu=cpu)

    exp = experiment(repeats=2)
    exp = exp.model_copy(update={"hypothesis": exp.hypothesis.model_copy(update={"times": "median"})})
    ran = execute(tmp_path, exp, Busy())
    assert ran.summary["verdict"] == verdict
    assert [line["run"] for line in ran.events("run_start")] == list(range(runs))
    assert ran.shown.count("each arm runs 1 more") == runs - 2
    assert all(f"run {run} of 0 to {max(1, run)}, 12 iterations" in ran.shown for run in range(runs))


def test_flap_strikes_as_often_as_asked(tmp_path: Path) -> None:
    exp = experiment(iterations=20, kind="flap", times="times: 3, down_s: 0.06, up_s: 0.05")
    ran = execute(tmp_path, exp)
    phases = [(line["cycle"], line["phase"]) for line in ran.events("fault") if line["phase"] != "armed"]
    assert phases == [(cycle, phase) for cycle in range(3) for phase in ("injected", "active", "reverted", "verified")]
    issued = [line["before_ns"] / 1e6 for line in ran.events("fault") if line["phase"] == "injected"]
    assert issued[1] - issued[0] > 105, "60 ms down and 50 up; a busy machine takes longer, never less"


def test_a_stall_is_measured_and_judged(tmp_path: Path) -> None:
    stalled = {(1, rank): ["--stall-at", "4", "--stall-ms", "600"] for rank in (0, 1)}
    ran = execute(tmp_path, bench=ScriptedBench(iteration_ms=250, extra=stalled))  # the fault may be half a second late
    assert (ran.summary["verdict"], ran.summary["exit_code"]) == ("deviated", 1), ran.run["void"]
    assert ran.run["faults"][0]["stall_ms"] == 600


def test_wrong_elements_deviate(tmp_path: Path) -> None:
    ran = execute(tmp_path, bench=ScriptedBench(extra={(1, 0): ["--wrong-at", "2"]}))
    assert (ran.summary["exit_code"], ran.run["wrong_elements"]) == (1, 7)


def test_a_busy_machine_is_void_and_exits_3_unless_that_is_allowed(tmp_path: Path) -> None:
    assert execute(tmp_path, bench=ScriptedBench(cpu=0.95)).summary["exit_code"] == 3
    tolerated = execute(tmp_path, bench=ScriptedBench(cpu=0.95), void_ok=True).summary
    assert (tolerated["verdict"], tolerated["exit_code"]) == ("void", 0)


def test_a_rank_that_dies_fails_the_experiment_and_names_it(tmp_path: Path) -> None:
    bench = ScriptedBench(extra={(1, 1): ["--die-at", "2"], (1, 0): ["--error-at", "3"]})
    ran = execute(tmp_path, bench=bench)
    assert (ran.summary["verdict"], ran.summary["exit_code"]) == ("failed", 3)
    assert ran.summary["reasons"][0].startswith("rank1 on h1 was killed by SIGKILL")
    (end,) = ran.events("run_end")
    assert (end["outcome"], end["exit_codes"]) == ("failed", {"rank0": 3, "rank1": -9})
    assert {line["index"] for line in ran.events("iteration")} == {-1, 0, 1, 2}


def test_peers_of_a_dead_rank_that_do_not_end_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.run.arm.PEERS_S", 0.3)
    bench = ScriptedBench(extra={(1, 1): ["--die-at", "2"], (1, 0): ["--hang-at", "3"]})
    ran = execute(tmp_path, bench=bench)
    assert ran.summary["reasons"][0].startswith("rank1 on h1 was killed by SIGKILL")


def test_a_transport_error_after_the_fault_is_the_arms_own_doing(tmp_path: Path) -> None:
    bench = ScriptedBench(extra={(1, rank): ["--error-at", "6"] for rank in (0, 1)})
    ran = execute(tmp_path, bench=bench)
    assert (ran.summary["verdict"], ran.summary["exit_code"]) == ("deviated", 1)
    assert ran.run["completed"] is False
    assert "h0: connection reset" in ran.run["errors"]


def test_a_transport_error_before_the_fault_is_not(tmp_path: Path) -> None:
    bench = ScriptedBench(extra={(1, rank): ["--error-at", "1"] for rank in (0, 1)})
    ran = execute(tmp_path, bench=bench)
    assert (ran.summary["verdict"], ran.summary["exit_code"]) == ("failed", 3)
    assert "transport error" in ran.summary["reasons"][0]


def test_a_hang_is_seen_by_missing_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.run.arm.PATIENCE_S", 3.0)
    bench = ScriptedBench(extra={(1, rank): ["--hang-at", "7"] for rank in (0, 1)})
    ran = execute(tmp_path, bench=bench)
    assert ran.summary["verdict"] == "deviated", "the fault had struck: not completing is the arm's doing"
    assert ran.run["completed"] is False
    assert any("no progress" in line["message"] for line in ran.events("log"))


@pytest.mark.parametrize("at", ["time_s: 30"])
def test_a_fault_that_never_strikes_is_missed(tmp_path: Path, at: str) -> None:
    exp = experiment(iterations=6)
    spec = exp.faults[0].model_copy(update={"at": exp.faults[0].at.model_validate(yaml.safe_load(at))})
    ran = execute(tmp_path, exp.model_copy(update={"faults": (spec,)}))
    assert (ran.summary["verdict"], ran.summary["exit_code"]) == ("failed", 3)
    assert ran.summary["reasons"][0].startswith("the fault f0 missed")
    assert [line["phase"] for line in ran.events("fault")] == ["armed", "missed"]


def test_a_fault_that_outlasts_the_workload_is_undone_at_its_end(tmp_path: Path) -> None:
    ran = execute(tmp_path, experiment(iterations=6, times="duration_s: 60.0"))
    assert [line["phase"] for line in ran.events("fault")][-1] == "verified"
    assert ran.run["faults"][0]["after_ms"] is None


def test_a_bed_that_cannot_be_opened_is_a_failure_with_a_summary(tmp_path: Path) -> None:
    @contextmanager
    def nowhere() -> Iterator[Bed]:
        raise LabError("no namespaces here", "run as root")
        yield

    out = rundir.create(tmp_path, "x")
    request = runner.Request(["migrate"], ScriptedBench(), {"build_id": "b"}, nowhere, bed="cluster")
    summary = runner.run(experiment(), request, out, Display())
    assert (summary.verdict, summary.exit_code, summary.bed) == ("failed", 3, "cluster")
    assert summary.reasons[0] == "no namespaces here\n  try: run as root"


def signal_when_active(folder: Path, number: signal.Signals) -> None:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        if any('"phase":"active"' in path.read_text() for path in folder.glob("*/journal.jsonl")):
            os.kill(os.getpid(), number)
            return
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_and_rolled_back(tmp_path: Path, number: signal.Signals) -> None:
    """The signal comes while the fault is active: it is undone, the ranks are ended, the journal says so."""
    threading.Thread(target=signal_when_active, args=(tmp_path, number), daemon=True).start()
    ran = execute(tmp_path, experiment(iterations=100, times="duration_s: 60.0"))
    assert ran.summary["exit_code"] == 130
    (end,) = ran.events("run_end")
    assert end["outcome"] == "interrupted"
    assert [line["phase"] for line in ran.events("fault")] == ["armed", "injected", "active", "reverted", "verified"]


def test_what_is_no_json_becomes_a_log_line(tmp_path: Path) -> None:
    class Chatty(ScriptedBench):
        def rank(self, *args: Any, **kwargs: Any) -> list[str]:
            inner = super().rank(*args, **kwargs)
            return ["sh", "-c", 'echo "hello there"; exec "$@"', "sh", *inner]

    ran = execute(tmp_path, bench=Chatty(), void_ok=True)
    assert ran.summary["exit_code"] == 0
    assert any("rank0 printed: hello there" in line["message"] for line in ran.events("log"))


def test_the_display_is_told_every_line_of_the_journal(tmp_path: Path) -> None:
    class Watching(Display):
        heard: ClassVar[list[dict[str, Any]]] = []

        def line(self, line: Mapping[str, Any]) -> None:
            self.heard.append(dict(line))

    out = rundir.create(tmp_path, "scripted")
    request = runner.Request(["migrate"], ScriptedBench(), {"build_id": "b"}, lambda: bed(Switch()))
    runner.run(experiment(), request, out, Watching())
    assert Watching.heard == list(read(out.journal))


def test_progress_lines_say_arm_iteration_time_and_fault(tmp_path: Path) -> None:
    shown = execute(tmp_path).shown
    for part in ("migrate   run 0, 12 iterations", "iteration  11", " ms", "link_down on h1 eth1: active"):
        assert part in shown
    assert all(line.startswith("[") for line in shown.splitlines())


def test_run_directories_are_never_reused(tmp_path: Path) -> None:
    made = {rundir.create(tmp_path, "x").path.name for _ in range(3)}
    assert len(made) == 3
