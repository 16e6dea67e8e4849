"""The soak without a lab: what is drawn, what counts as a failure, and how far a failing list shrinks."""

from __future__ import annotations

import gzip
import io
import json
import re
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from chaos_double import ScriptedBench, Switch, bed
from chaos_literal import at, lines

from chaos.experiment.file import dump, load, loads
from chaos.experiment.model import Experiment
from chaos.faults.registry import spec_of
from chaos.faults.spec import At
from chaos.soak import draw, judge
from chaos.soak.resume import earlier, same_build, same_workload
from chaos.soak.run import Request, Soak, reduced
from chaos.soak.shrink import OutOfTime, shrink
from chaos.testbed.beds import Bed
from harness.errors import UsageError
from harness.files import rundir
from harness.schemas import plain


@pytest.mark.parametrize("guilty", [{13}, {3, 90}, {0, 41, 42}, set(range(0, 100, 20))])
def test_shrinking_finds_exactly_what_is_needed(guilty: set[int]) -> None:
    asked = []

    def fails(some: list[int]) -> bool:
        asked.append(len(some))
        return guilty <= set(some)

    assert shrink(range(100), fails) == sorted(guilty)
    assert len(asked) < 400


def test_shrinking_keeps_what_it_has_when_time_is_up() -> None:
    calls = iter(range(8))

    def fails(some: list[int]) -> bool:
        if next(calls, None) is None:
            raise OutOfTime
        return {2, 50} <= set(some)

    found = shrink(range(100), fails)
    assert {2, 50} <= set(found)
    assert shrink([1], lambda some: True) == [1]


def test_a_reduced_round_keeps_the_time_between_its_faults() -> None:
    experiment = draw.round_of(1, 0, arm="migrate", seconds=40)
    some = [fault for fault in experiment.faults if fault.at.time_s is not None][-3:]
    smaller = reduced(experiment, some)
    times = [fault.at.time_s or 0 for fault in smaller.faults]
    assert times[0] == draw.FIRST_S
    assert times[2] - times[0] == pytest.approx((some[2].at.time_s or 0) - (some[0].at.time_s or 0), abs=1e-3)
    assert smaller.workload.seconds < 12
    assert loads(dump(smaller), Path("smaller.yaml")) == smaller


def test_who_is_late_is_so_earlier_in_a_reduced_round() -> None:
    rounds = (draw.round_of(1, number, arm="migrate", seconds=40) for number in range(20))
    late = next(f for each in rounds for f in each.faults if f.kind == "late" and draw.time_of(f) > 20)
    experiment = draw.round_of(1, 0, arm="migrate", seconds=40)
    (alone,) = reduced(experiment, [late]).faults
    assert (alone.at.iteration, reduced(experiment, [late]).workload.seconds < 8) == (2, True)
    after = next(f for f in experiment.faults if f.at.time_s is not None and f.at.time_s > draw.time_of(late))
    both = reduced(experiment, [late, after]).faults
    apart = [draw.time_of(two) - draw.time_of(one) for one, two in ((late, after), both)]
    assert apart[0] == pytest.approx(apart[1], abs=draw.PACE_S)


def journal(**changes: Any) -> list[dict[str, Any]]:
    return [{**line, **changes.get(line["event"], {})} for line in lines("migrate")]


def test_a_good_round_is_no_failure() -> None:
    assert judge.failure(journal(), 2) is None


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (journal(iteration={"wrong_elements": 2}), "wrong elements, first in iteration 0"),
        (journal(run_end={"outcome": "failed", "reason": "rank1 was killed by SIGSEGV"}), "killed by SIGSEGV"),
        (journal(run_end={"exit_codes": {"rank0": 0, "rank1": -15}}), "rank1 ended with exit code -15"),
        ([line for line in journal() if line["event"] != "run_end"], "stops before"),
        ([line for line in journal() if (line["event"], line.get("rank")) != ("bench_end", 1)], "1 of 2 ranks"),
        ([*journal(), {**at(1500, "h0", "error", rank=0, message="gone"), "run": 0}], "rank 0: gone"),
        ([*journal(), {**at(1500, "c", "log", message="no progress for 30 s: the ranks are ended"), "run": 0}],
         "no progress for 30 s"),
        ([*journal(), {**at(30000, "h0", "iteration", rank=0, index=9, start_ns=10**9, end_ns=30 * 10**9,
                            bytes=1, wrong_elements=0), "run": 0}], "iteration 9 took 29 s"),
    ],
)  # fmt: skip
def test_failures_have_a_reason(made: list[dict[str, Any]], words: str) -> None:
    assert words in str(judge.failure(made, 2))


def test_a_round_without_one_of_its_nics_says_nothing() -> None:
    """Over RDMA one that was down at the start was left out, and what broke on it later counted nonetheless."""
    alone = journal(bench_start={"nics": ["rxe1"]})
    assert judge.left_out_nics(alone, 2) == "rank 0 used rxe1 alone"
    assert judge.left_out_nics(journal(bench_start={"nics": ["rxe1", "rxe0"]}), 2) is None
    assert judge.left_out_nics(journal(bench_start={"nics": ["rxe1"], "mode": 0}), 2) is None, "as stock does"


def test_an_iteration_may_take_long_where_commands_do() -> None:
    slow = {**at(30000, "h0", "iteration", rank=0, index=9, start_ns=10**9, end_ns=30 * 10**9), "run": 0}
    slow |= {"bytes": 1, "wrong_elements": 0}
    said = {"argv": ["true"], "exit_code": 0, "stderr": ""}
    command = {**at(5000, "h0", "command", started_ns=at(1000, "h0", "log")["t_ns"], **said), "run": 0}
    assert "took 29 s" in str(judge.failure([*journal(), slow], 2))
    assert judge.failure([*journal(), command, slow], 2) is None


def test_only_faults_before_the_failure_are_to_blame() -> None:
    wrong = {**at(1400, "h0", "iteration", rank=0, index=3, start_ns=1, end_ns=2, bytes=1, wrong_elements=1), "run": 0}
    assert judge.injected_before(journal(), judge.failed_at_ns(journal())) == {"cable"}
    assert judge.injected_before(journal(), judge.failed_at_ns([*journal(), wrong])) == set(), "it struck at 1445 ms"


def test_the_fate_of_a_fault() -> None:
    (fate,) = judge.fates(journal(path={"direction": "send", "home_nic": "eth1", "peer": "10.2.0.1"}))
    assert (fate.id, fate.nics, fate.moved, fate.returned) == ("cable", 1, 1, 1)
    assert judge.totals([fate, fate])["link_down"] == judge.OfKind(faults=2, moving=2, moved=2, returned=2)


ROOT = Path(__file__).resolve().parents[2]


def soak(folder: Path, bench: ScriptedBench, **changes: Any) -> tuple[dict[str, Any], Path, str]:
    """A soak of one host's scripted ranks; its only fault is a link of h1 that goes down."""
    words: dict[str, Any] = {
        "arm": "migrate", "seed": 1, "seconds": 1.0, "round_s": 5.0, "shrink_s": 60.0, "bench": bench,
        "build": {"build_id": "b"}, "open_bed": opened, "max_faults": 1,
    }  # fmt: skip
    out, shown = rundir.create(folder, "soak"), io.StringIO()
    report = Soak(Request(**{**words, **changes}), out, lambda text: print(text, file=shown), lambda text: None).run()
    assert json.loads((out.path / "soak.json").read_text()) == plain(report)
    return report, out.path, shown.getvalue()


def opened(experiment: Experiment) -> AbstractContextManager[Bed]:
    return bed(Switch())


@pytest.fixture
def small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds that the double can carry: two link_downs on h1's eth1, twelve iterations."""
    common = {"kind": "link_down", "host": "h1", "nic": "eth1", "duration_s": 0.05}
    monkeypatch.setattr("chaos.soak.run.draw.round_of", partial(small_round, common))


def small_round(common: dict[str, Any], seed: int, number: int, *, arm: str, **_: Any) -> Experiment:
    shape = draw.Shape(2, 2, 1.0, {"op": "stream", "bytes": 1024})
    faults = [spec_of({**common, "id": f"f{n}", "at": {"time_s": 0.05 + n * 0.2}, "may_miss": True}) for n in range(2)]
    experiment = draw.experiment_of(f"soak-{seed}-{number}", shape, faults, arm, seed=1)
    return experiment.model_copy(update={"workload": experiment.workload.model_copy(update={"iterations": 12})})


@pytest.mark.usefixtures("small_rounds")
def test_a_soak_that_passes_counts_and_keeps_little(tmp_path: Path) -> None:
    report, folder, _ = soak(tmp_path, ScriptedBench())
    assert (report.outcome, report.exit_code, report.faults, report.rounds) == ("passed", 0, 2, 1)
    assert report.by_kind["link_down"].faults == 2
    assert sorted(path.name for path in folder.iterdir()) == ["raw", "soak.json", "trimmed.jsonl.gz"]


@pytest.mark.parametrize("fails", [False, True])
def test_progress_never_counts_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """A flap strikes several times and is one fault; runs that only make a failure smaller add nothing."""
    flap = {"kind": "flap", "host": "h1", "nic": "eth1", "times": 3, "down_s": 0.05, "up_s": 0.05}
    monkeypatch.setattr("chaos.soak.run.draw.round_of", partial(small_round, flap))
    bench = ScriptedBench(extra={(1, 1): ["--wrong-at", "9"]} if fails else {})
    told: list[str] = []
    out = rundir.create(tmp_path, "soak")
    request = Request("migrate", 1, 20.0, 5.0, 1.0, bench, {"build_id": "b"}, opened, max_faults=3)
    report = Soak(request, out, print, told.append).run()
    counts = [int(found[1]) for text in told if (found := re.search(r"min, (\d+) faults in", text))]
    assert len(counts) == len(told) and counts == sorted(counts) and counts[-1] == report.faults
    assert told[0].endswith("; round 0: 1 so far")
    assert any("to make it smaller" in text for text in told) == fails


@pytest.mark.usefixtures("small_rounds")
def test_a_soak_goes_on_where_it_ended(tmp_path: Path) -> None:
    first, folder, _ = soak(tmp_path, ScriptedBench())
    before = earlier(folder, [])
    assert before == first
    out = rundir.RunDir(folder)
    request = Request("migrate", 1, 1.0, 5.0, 5.0, ScriptedBench(), {"build_id": "b"}, opened, max_faults=4)
    report = Soak(replace(request, before=before), out, print, lambda text: None).run()
    assert (report.rounds, report.faults, report.by_kind["link_down"].faults) == (2, 4, 4)
    assert report.iterations == 2 * first.iterations
    assert report.minutes >= first.minutes
    with gzip.open(folder / "trimmed.jsonl.gz", "rt") as file:
        assert {json.loads(line)["run"] for line in file} == {0, 1}, "round 0 is not run again"


def test_a_soak_goes_on_under_the_same_experiment(tmp_path: Path, small_rounds: None) -> None:
    before, _, _ = soak(tmp_path, ScriptedBench())
    own = load(ROOT / "experiments/gpu/collectives.yaml")
    same_workload(before, None, None)
    same_workload(replace(before, under=own.name), own, "1")
    same_workload(replace(before, under=own.name, under_digest="1"), own, "1")
    with pytest.raises(UsageError, match="had workloads of its own"):
        same_workload(before, own, "1")
    with pytest.raises(UsageError, match=f"ran under {own.name}"):
        same_workload(replace(before, under=own.name, under_digest="1"), None, None)
    with pytest.raises(UsageError, match=f"{own.name} was changed since the soak began"):
        same_workload(replace(before, under=own.name, under_digest="1"), own, "2")


def test_what_cannot_go_on_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has its own"):
        earlier(tmp_path, ["--seed"])
    with pytest.raises(UsageError, match="cannot go on"):
        earlier(tmp_path, [])
    (tmp_path / "soak.json").write_text("{}")
    with pytest.raises(UsageError, match="none of this version"):
        earlier(tmp_path, [])


@pytest.mark.usefixtures("small_rounds")
def test_a_soak_that_failed_or_ran_another_build_does_not_go_on(tmp_path: Path) -> None:
    report, folder, _ = soak(tmp_path, ScriptedBench())
    with pytest.raises(UsageError, match="ran build b, and this is c"):
        same_build(earlier(folder, []), {"build_id": "c"})
    rundir.RunDir(folder).write_json("soak.json", replace(report, outcome="failed", exit_code=1))
    with pytest.raises(UsageError, match="does not go on"):
        earlier(folder, [])


@pytest.mark.usefixtures("small_rounds")
def test_a_failing_round_is_kept_whole_and_shrunk_to_a_replay(tmp_path: Path) -> None:
    report, folder, shown = soak(tmp_path, ScriptedBench(extra={(1, 1): ["--wrong-at", "9"]}))
    assert (report.outcome, report.exit_code) == ("failed", 1)
    assert "first in iteration 9 on rank 1" in report.failure.why
    assert report.failure.reproduced
    assert report.failure.replay_faults == 1
    assert "round 0 failed" in shown
    assert len(load(folder / "replay.yaml").faults) == 1
    assert len(load(folder / "round-0000.yaml").faults) == 2
    assert (folder / "round-0000.jsonl").stat().st_size > 1000


@pytest.mark.usefixtures("small_rounds")
def test_a_rank_that_crashes_is_a_failure_of_the_transport(tmp_path: Path) -> None:
    report, _, _ = soak(tmp_path, ScriptedBench(extra={(1, 1): ["--die-at", "9"]}), shrink_s=0.0)
    assert "was killed by SIGKILL" in report.failure.why
    assert not report.failure.reproduced, "no time to try"


@pytest.mark.usefixtures("small_rounds")
def test_a_switch_that_fails_is_no_failure_of_the_transport(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.soak.run.EXCUSED_MAX", 1)
    report, _, _ = soak(tmp_path, ScriptedBench(), open_bed=lambda _: bed(Switch(broken="gone")))
    assert (report.outcome, report.exit_code, report.failure) == ("infrastructure", 3, None)
    assert report.excused_rounds == 2


@pytest.mark.usefixtures("small_rounds")
def test_a_first_run_takes_no_time_of_the_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a soak of no round at all passes, where that run took all the time."""
    monkeypatch.setattr("chaos.soak.run.draw.cycles_of", lambda _: 4)
    monkeypatch.setattr(Soak, "_learn_cycle", lambda self, cycles: time.sleep(1.2))
    report, _, _ = soak(tmp_path, ScriptedBench(), max_faults=None)
    assert report.outcome == "passed"
    assert report.rounds > 0


def test_wrong_elements_count_though_the_next_fault_cannot_be_injected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def third_iteration(seed: int, number: int, **words: Any) -> Experiment:
        drawn = small_round(
            {"kind": "link_down", "host": "h1", "nic": "eth1", "duration_s": 0.05}, seed, number, **words
        )
        fault = drawn.faults[0].model_copy(update={"at": At(iteration=3)})
        return drawn.model_copy(update={"faults": (fault,)})

    monkeypatch.setattr("chaos.soak.run.draw.round_of", third_iteration)
    bench = ScriptedBench(extra={(1, 1): ["--wrong-at", "0"]})
    report, _, _ = soak(tmp_path, bench, open_bed=lambda _: bed(Switch(broken="ignores")), shrink_s=0.0)
    assert (report.outcome, report.exit_code, report.excused_rounds) == ("failed", 1, 0)
    assert "first in iteration 0 on rank 1" in report.failure.why


def test_ctrl_c_reports_what_was_done(tmp_path: Path) -> None:
    def interrupted(experiment: Experiment) -> AbstractContextManager[Bed]:
        raise KeyboardInterrupt

    report, _, _ = soak(tmp_path, ScriptedBench(), open_bed=interrupted)
    assert (report.outcome, report.exit_code, report.faults) == ("interrupted", 130, 0)
