"""Verdicts: what each combination of figures, voids and expectations comes to."""

from __future__ import annotations

from typing import Any

import chaos_literal as literal
import pytest

from chaos.analysis.model import Arm, Check, Outcome
from chaos.analysis.summary import grouped, summarize
from chaos.analysis.verdict import check, combine, overall
from chaos.experiment.model import Experiment
from harness.facts.environment import Hardware
from harness.schemas import plain, problems

HARDWARE: Hardware = {"fingerprint": "f", "cpu": "c", "cores": 2, "memory_bytes": 1}
OUTCOMES: tuple[Outcome, ...] = ("holds", "deviated", "void")


def summary(
    lines: list[literal.Line],
    *,
    arms: tuple[str, ...] = ("stock", "migrate"),
    experiment: Experiment | None = None,
    **options: Any,
) -> dict[str, Any]:
    whole = summarize(
        lines, experiment or literal.experiment(), arms, bed="lab", hardware=HARDWARE, build_id="b", **options
    )
    assert problems("summary", plain(whole)) == []
    return plain(whole)


def arm(whole: dict[str, Any], name: str) -> dict[str, Any]:
    return next(entry for entry in whole["arms"] if entry["name"] == name)


def outcomes(whole: dict[str, Any], name: str) -> dict[str, str]:
    entry = arm(whole, name)
    checks = [each for run in entry["runs"] for each in run["checks"]] + entry["checks"]
    return {each["name"]: each["outcome"] for each in checks}


def spoil(lines: list[literal.Line], event: str, arm_name: str, **changes: Any) -> list[literal.Line]:
    return [{**line, **changes} if (line["event"], line["arm"]) == (event, arm_name) else line for line in lines]


def test_both_arms_do_as_expected() -> None:
    whole = summary(literal.journal())
    assert (whole["verdict"], whole["exit_code"], whole["reasons"]) == ("holds", 0, [])
    assert (arm(whole, "stock")["verdict"], arm(whole, "stock")["as_expected"]) == ("deviated", True)
    assert (arm(whole, "migrate")["verdict"], arm(whole, "migrate")["as_expected"]) == ("holds", True)
    assert outcomes(whole, "migrate") == dict.fromkeys(
        ["exact", "completes", "stall_ms(cable)", "iteration_ms(cable)", "return_ms(cable)", "healthy_ratio",
         "rank_memory_over_stock"], "holds")  # fmt: skip
    # 168 <= 153 * 1.1; memory 3 MB above stock; healthy 100 / 100
    metrics = {each["name"]: (each["value"], each["bound"]) for each in arm(whole, "migrate")["metrics"]}
    assert metrics == {"healthy_ratio": (1.0, 1.01), "rank_memory_over_stock": (3_000_000, 8388608)}


def test_an_arm_that_should_hold_and_does_not() -> None:
    text = literal.EXPERIMENT.replace("stall_ms_max: 25.0", "stall_ms_max: 10.0")
    whole = summary(literal.journal(), experiment=literal.loads(text, literal.Path("x.yaml")))
    assert (whole["verdict"], whole["exit_code"]) == ("deviated", 1)
    assert whole["reasons"] == [
        "migrate was expected to hold and deviated",
        "migrate, run 0: stall_ms(cable) 20.0 ms (limit 10.0): deviated",
    ]


def test_an_arm_that_should_deviate_and_does_not() -> None:
    text = literal.EXPERIMENT.replace("stall_ms_max: 25.0", "stall_ms_max: 2500.0")
    stock = [line for line in literal.journal() if line["arm"] == "stock"]
    whole = summary(
        stock,
        arms=("stock",),
        experiment=literal.loads(text, literal.Path("x.yaml")),
    )
    assert arm(whole, "stock")["as_expected"] is False
    assert whole["exit_code"] == 1


def test_wrong_elements_are_never_as_expected_not_even_when_deviation_is() -> None:
    lines = spoil(literal.journal(), "iteration", "stock", wrong_elements=1)
    whole = summary(lines)
    assert outcomes(whole, "stock")["exact"] == "deviated"
    assert arm(whole, "stock")["as_expected"] is False
    assert whole["exit_code"] == 1
    forgiving = literal.EXPERIMENT.replace("{expect: deviates}", "{expect: deviates, hypothesis: {exact: false}}")
    assert summary(lines, experiment=literal.loads(forgiving, literal.Path("x.yaml")))["exit_code"] == 0


BUSY = {"busy": 0.97}


def test_a_busy_machine_makes_figures_void_but_not_correctness() -> None:
    lines = spoil(spoil(literal.journal(), "cpu", "stock", **BUSY), "cpu", "migrate", **BUSY)
    whole = summary(lines)
    assert (whole["verdict"], whole["exit_code"]) == ("void", 3)
    found = outcomes(whole, "migrate")
    assert (found["exact"], found["completes"], found["stall_ms(cable)"]) == ("holds", "holds", "void")
    assert found["rank_memory_over_stock"] == "holds"  # bytes do not depend on how busy the machine is
    assert arm(whole, "migrate")["as_expected"] is None
    assert any("97% busy" in reason for reason in whole["reasons"])
    tolerated = summary(lines, void_ok=True)
    assert (tolerated["verdict"], tolerated["exit_code"]) == ("void", 0)


def test_void_ok_forgives_no_wrong_result_and_no_incomplete_run() -> None:
    void = spoil(spoil(literal.journal(), "cpu", "stock", **BUSY), "cpu", "migrate", **BUSY)
    wrong = spoil(void, "iteration", "migrate", wrong_elements=2)
    assert summary(wrong, void_ok=True)["exit_code"] == 1
    incomplete = [line for line in void if not (line["event"] == "bench_end" and line["arm"] == "migrate")]
    whole = summary(incomplete, void_ok=True)
    assert (whole["exit_code"], outcomes(whole, "migrate")["completes"]) == (1, "deviated")


def struck_between(begin_ms: float, end_ms: float) -> dict[str, Any]:
    """The summary, had the command been issued and returned then."""
    lines = literal.journal()
    for line in lines:
        if line["event"] == "fault" and line["phase"] == "injected":
            line |= {"before_ns": literal.ns(begin_ms), "after_ns": literal.ns(end_ms)}
    return summary(lines)


def test_a_fault_that_missed_is_a_failure_of_the_experiment() -> None:
    whole = struck_between(978, 980)
    assert (whole["verdict"], whole["exit_code"]) == ("failed", 3)
    assert any("cable missed" in reason for reason in whole["reasons"])


def test_a_command_that_returned_in_the_next_iteration_hit_it() -> None:
    """Over SSH a fault takes so long that its command may be issued between two iterations."""
    whole = struck_between(980, 1005)
    assert not any("missed" in reason for reason in whole["reasons"])
    for name in ("stock", "migrate"):
        (fault,) = arm(whole, name)["runs"][0]["faults"]
        assert (fault["hit"], fault["at_iteration"]) == (True, 0)


def test_a_run_without_an_end_is_a_failure() -> None:
    lines = [line for line in literal.journal() if not (line["event"] == "run_end" and line["arm"] == "migrate")]
    whole = summary(lines)
    assert (whole["verdict"], whole["exit_code"]) == ("failed", 3)
    assert arm(whole, "stock")["as_expected"] is True


@pytest.mark.parametrize(("interrupted", "code"), [(False, 3), (True, 130)])
def test_what_stopped_the_experiment_comes_first(interrupted: bool, code: int) -> None:
    whole = summary([], failure="the lab went away", interrupted=interrupted)
    assert (whole["verdict"], whole["exit_code"], whole["reasons"][0]) == ("failed", code, "the lab went away")


def test_the_healthy_ratio_pairs_repeats_and_takes_their_median() -> None:
    lines: list[literal.Line] = []
    for run, ms in enumerate((100, 102, 120)):
        lines += literal.lines("stock", run)
        lines += literal.lines("migrate", run, durations=[ms] * 4 + [168, 200, 200, 150, 105, 100])
    found = {each["name"]: each["value"] for each in arm(summary(lines), "migrate")["metrics"]}
    assert found["healthy_ratio"] == 1.02


def test_every_repeat_of_a_deviating_arm_must_deviate() -> None:
    quiet = [{**line, "run": 1, "arm": "stock"} for line in literal.lines("migrate")]
    one_of_two = literal.lines("stock", 0) + quiet
    whole = summary(one_of_two, arms=("stock",))
    assert [run["verdict"] for run in arm(whole, "stock")["runs"]] == ["deviated", "holds"]
    assert arm(whole, "stock")["as_expected"] is False


@pytest.mark.parametrize(
    ("value", "bound", "void", "outcome"),
    [(10.0, 10.0, False, "holds"), (10.1, 10.0, False, "deviated"), (None, 10.0, False, "void"),
     (1.0, 10.0, True, "void"), (True, True, False, "holds"), (False, True, False, "deviated"), (0, 0, False, "holds")],
)  # fmt: skip
def test_one_check(value: float | None, bound: float, void: bool, outcome: str) -> None:
    assert check("x", value, bound, "ms", void=void).outcome == outcome


def test_deviation_outweighs_void() -> None:
    holds, deviated, void = (Check("x", word, 1, 1, "ms") for word in OUTCOMES)
    assert combine([holds, void, deviated]) == "deviated"
    assert combine([holds, void]) == "void"
    assert combine([holds]) == "holds"


@pytest.mark.parametrize(
    ("answers", "void_ok", "expected"),
    [([True, True], False, ("holds", 0)), ([True, False, None], True, ("deviated", 1)),
     ([True, None], False, ("void", 3)), ([True, None], True, ("void", 0))],
)  # fmt: skip
def test_the_whole(answers: list[bool | None], void_ok: bool, expected: tuple[str, int]) -> None:
    arms = [Arm("stock", 0, "holds", "holds", answer, [], [], []) for answer in answers]
    assert overall(arms, void_ok=void_ok) == expected


def test_of_samples_each_hosts_first_and_last_are_kept_with_their_times() -> None:
    counters = [{"tx_bytes": moved, "rx_bytes": 2 * moved} for moved in range(5)]
    about = {"arm": "stock", "run": 0, "host": "h0", "event": "sample"}
    lines = [
        {**about, "t_ns": at, "nics": {"eth0": moved}} for at, moved in zip(range(10, 60, 10), counters, strict=True)
    ]
    lines[2]["nics"] = {"eth1": counters[2]}
    first, last = grouped([{**about, "event": "log", "t_ns": 1}, *lines])["stock"][0][1:]
    assert (first["t_ns"], last["t_ns"]) == (10, 50)
    assert first["nics"] == {"eth0": counters[0], "eth1": counters[2]}
    assert last["nics"] == {"eth0": counters[4], "eth1": counters[2]}


REPEATED = literal.EXPERIMENT.replace("hypothesis:\n", "repeats: 3\nhypothesis:\n  times: median\n")


def repeated(slow: int = 0, void: int = 0) -> list[literal.Line]:
    """Three repeats of both arms: migrate's first `slow` have an outlier, its last `void` a busy machine."""
    lines = []
    for run in range(3):
        took = [*literal.MIGRATE_MS]
        took[4] += 100 if run < slow else 0
        mine = literal.lines("migrate", run, durations=took)
        lines += literal.lines("stock", run) + (spoil(mine, "cpu", "migrate", busy=0.95) if run >= 3 - void else mine)
    return lines


@pytest.mark.parametrize(
    ("slow", "void", "each", "median"),
    [(0, 0, "holds", "holds"), (1, 0, "deviated", "holds"), (2, 0, "deviated", "deviated"),
     (0, 1, "void", "holds"), (0, 2, "void", "void"), (1, 1, "deviated", "deviated")],
)  # fmt: skip
def test_times_of_each_repeat_or_their_median(slow: int, void: int, each: str, median: str) -> None:
    for times, expected in (("each", each), ("median", median)):
        experiment = literal.loads(REPEATED.replace("times: median", f"times: {times}"), literal.Path("x.yaml"))
        whole = summary(repeated(slow, void), experiment=experiment)
        assert arm(whole, "stock")["as_expected"] is True
        assert arm(whole, "migrate")["verdict"] == expected, times
        if times == "median":  # as docs/howto/python.md says of `run.summary()`
            assert [run["verdict"] for run in arm(whole, "migrate")["runs"]] == ["holds"] * 3


def test_runs_that_are_void_for_one_reason_are_told_in_one_line() -> None:
    experiment = literal.loads(REPEATED, literal.Path("x.yaml"))
    for void, place in ((1, "migrate, run 2"), (3, "migrate, runs 0, 1, 2")):
        told = [text for text in summary(repeated(void=void), experiment=experiment)["reasons"] if ": void: " in text]
        assert told == [f"{place}: void: the machine's CPU was 95% busy (limit 85%)"]


def test_half_of_the_repeats_asked_for_are_enough() -> None:
    """Six runs where three were asked for: two that count are."""
    experiment = literal.loads(REPEATED, literal.Path("x.yaml"))
    more = [{**line, "run": line["run"] + 3} for line in repeated(void=2)]
    assert arm(summary(repeated(void=3) + more, experiment=experiment), "migrate")["verdict"] == "void"
    assert arm(summary(repeated(void=2) + more, experiment=experiment), "migrate")["verdict"] == "holds"


def test_an_interrupted_repeat_is_in_no_median() -> None:
    """Nor is it told of its times: it has none that say anything."""
    experiment = literal.loads(REPEATED, literal.Path("x.yaml"))
    took = [*literal.MIGRATE_MS[:4], 900.0, *literal.MIGRATE_MS[5:]]
    cut = spoil(literal.lines("migrate", 2, durations=took), "run_end", "migrate", outcome="interrupted")
    others = [line for line in repeated(slow=1) if (line["arm"], line["run"]) != ("migrate", 2)]
    whole = summary(others + cut, experiment=experiment, failure="interrupted", interrupted=True)
    without = summary([line for line in others if line["run"] < 2], experiment=experiment)
    assert arm(whole, "migrate")["checks"] == arm(without, "migrate")["checks"]
    told = [text for text in whole["reasons"] if text.startswith("migrate, run 2: ")]
    assert told == ["migrate, run 2: interrupted"]
    assert [run.get("cut") for run in arm(whole, "migrate")["runs"]] == [None, None, True], "the file says so"


def test_a_figure_that_few_repeats_have_is_void() -> None:
    """It must not pass for want of numbers: two of three never returned."""
    experiment = literal.loads(REPEATED, literal.Path("x.yaml"))
    lines = []
    for run, never in enumerate((True, True, False)):
        took = [*literal.MIGRATE_MS[:7], 150, 150, 150] if never else literal.MIGRATE_MS
        lines += literal.lines("stock", run) + literal.lines("migrate", run, durations=took)
    found = outcomes(summary(lines, experiment=experiment), "migrate")
    assert found["return_ms(cable)"] == "void"
    assert found["stall_ms(cable)"] == "holds"
