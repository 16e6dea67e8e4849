"""Figures of workloads under NCCL, which tell no deliveries: by hand, from the journal of chaos_literal.py."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import chaos_literal as literal
import pytest

from chaos.analysis.figures import run_figures
from chaos.analysis.model import Run
from chaos.analysis.paths import crowding
from chaos.analysis.rundata import read_run
from chaos.analysis.stats import median_interval
from chaos.analysis.verdict import identical, limits_on, run_checks
from chaos.experiment.model import Hypothesis


def told(arm: str) -> list[dict[str, Any]]:
    """Without deliveries, but every receiving end says where it began, as the net library does."""
    lines = [line for line in literal.lines(arm) if line["event"] != "delivery"]
    if arm == "migrate":
        for host, channel in ((host, channel) for host in ("h0", "h1") for channel in (0, 1)):
            end = {"connection": f"r{channel}", "direction": "recv", "nic": f"eth{channel}", "state": "active"}
            lines.append({"schema": 1, "arm": arm, "run": 0, **literal.at(991, host, "path", **end, cause="connected")})
    return sorted(lines, key=lambda line: line["t_ns"])


def figures(arm: str, mode: int) -> Run:
    return run_figures(read_run(told(arm)), mode, iterations=10)


@pytest.mark.parametrize("mode", [1, 2])
def test_bounds_without_deliveries_take_all_connections_for_alike(mode: int) -> None:
    """Struck at 1447, 47 ms into an iteration of 100: 53 ms were left, and one of two NICs: 47 + 2 x 53."""
    (cable,) = figures("migrate", mode).faults
    assert (cable.iteration_bound_ms, cable.degraded_bound_ms) == (153.0, 200.0)
    assert cable.beyond_ms == 15.0  # 168 - 153
    assert cable.stall_ms is None, "nothing was measured, which is not 0"


def test_stock_is_compared_with_what_balance_could_do() -> None:
    (cable,) = figures("stock", 0).faults
    assert (cable.iteration_bound_ms, cable.beyond_ms) == (None, 512.0)  # 665 - 153
    hypothesis = Hypothesis(iteration_beyond_ms_max=20.0)
    assert limits_on(cable, hypothesis, 100.0, 0) == {"beyond_ms": 20.0}
    outcomes = {check.name: check.outcome for check in run_checks(figures("stock", 0), hypothesis, 0)}
    assert outcomes["beyond_ms(cable)"] == "deviated"
    assert run_checks(figures("migrate", 1), hypothesis, 1)[-1].outcome == "holds"


def test_crowding_is_of_the_busiest_nic_at_that_moment() -> None:
    data = read_run(told("migrate"))
    assert crowding(data, literal.ns(990)) is None  # no path has been told of yet
    assert crowding(data, literal.ns(1500)) == 2.0  # eth1's connection has moved to eth0, which has its own
    assert crowding(data, literal.ns(2100)) == 1.0  # and is back


def run(number: int, *results: str) -> Run:
    said = {f"0/{index}": text for index, text in enumerate(results)}
    return replace(figures("stock", 0), run=number, results=said)


def test_results_are_compared_iteration_by_iteration_and_repeat_by_repeat() -> None:
    stock = [run(0, "a", "b", "c"), run(1, "d", "e", "f")]
    assert identical([run(0, "a", "b", "c"), run(1, "d", "e", "f")], stock) is True
    assert identical([run(0, "a", "b"), run(1, "d", "e", "f")], stock) is True  # what both have
    assert identical([run(0, "a", "b", "c"), run(1, "d", "X", "f")], stock) is False
    assert identical([run(2, "a")], stock) is None, "nothing to compare is not the same"


def test_what_users_of_inference_feel() -> None:
    lines = told("migrate")
    for line in lines:
        if line["event"] == "iteration":
            slow = line["index"] in (5, 6)  # the requests that lie wholly inside the fault
            line |= {"ttft_ms": 40.0 if slow else 30.0, "gaps_ms": [5.0, 9.0 if slow else 5.0]}
    named = {each["name"]: each["value"] for each in asdict(run_figures(read_run(lines), 1, iterations=10))["metrics"]}
    assert (named["ttft_healthy_p50"], named["ttft_degraded_p50"], named["ttft_all_p50"]) == (30.0, 40.0, 30.0)
    assert (named["tpot_healthy_p99"], named["tpot_degraded_p50"], named["longest_token_gap"]) == (5.0, 7.0, 9.0)
    assert "ttft_all_p50" not in {each.name for each in figures("migrate", 1).metrics}


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, (1, 1)), (5, (1, 5)), (6, (1, 6)), (12, (3, 10)), (100, (40, 61))],
)
def test_the_interval_of_a_median_is_that_of_the_tables(count: int, expected: tuple[int, int]) -> None:
    assert median_interval(range(count, 0, -1)) == expected


def test_no_interval_of_nothing() -> None:
    with pytest.raises(ValueError, match="no values"):
        median_interval([])


def program(*lines: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a program of three ranks with NCCL's profiler; one loses its last NIC at 1447 (chaos_literal.py)."""
    said = [line for line in told("migrate") if line["event"] in ("run_start", "fault", "probe", "run_end")]
    for rank, host in enumerate(("h0", "h1", "h2")):
        said.append({"schema": 1, "arm": "migrate", "run": 0, **literal.at(990, host, "bench_start")})
        said[-1] |= {"rank": rank, "ranks": 3, "op": "command", "connections": [], "bytes": 0}
    said += [{"schema": 1, "arm": "migrate", "run": 0, **line} for line in lines]
    return sorted(said, key=lambda line: line["t_ns"])


def step(rank: int, index: int, start_ms: float, end_ms: float) -> dict[str, Any]:
    times = {"start_ns": literal.ns(start_ms), "end_ns": literal.ns(end_ms)}
    return literal.at(end_ms, f"h{rank}", "iteration") | {"rank": rank, "index": index, "wrong_elements": 0, **times}


def steps(rank: int, ends_ms: list[float]) -> list[dict[str, Any]]:
    return [step(rank, i, start, end) for i, (start, end) in enumerate(zip([1000.0, *ends_ms], ends_ms, strict=False))]


def still(rank: int, began_ms: float, took_ms: float) -> dict[str, Any]:
    line = literal.at(began_ms + took_ms, f"h{rank}", "traffic") | {
        "rank": rank,
        "comm": "c",
        "stall_us": took_ms * 1e3,
    }
    return line | {"stall_us": took_ms * 1e3, "stall_began_ns": literal.ns(began_ms)}


NOTHING = {"wrong_elements": 0, "max_rss_bytes": 0, "cpu_s": 0.0}


def ended(rank: int, at_ms: float, completed: int) -> dict[str, Any]:
    return literal.at(at_ms, f"h{rank}", "bench_end") | {"rank": rank, "completed": completed, **NOTHING}


LEFT = [1200.0, 1400.0, 1600.0, 2500.0, 2700.0, 2900.0, 3100.0]


def test_a_program_that_goes_on_without_a_rank_has_whole_iterations_of_those_that_are_left() -> None:
    """Rank 2 does three steps of 200; the others shrink, and the fourth takes them 900."""
    lines = program(*steps(0, LEFT), *steps(1, LEFT), *steps(2, LEFT[:3]), ended(2, 2560.0, 3))
    data = read_run(lines)
    assert [round(took) for took in data.durations_ms.values()] == [200, 200, 200, 900, 200, 200, 200]
    (cable,) = run_figures(data, 1, iterations=7).faults
    assert cable.longest_ms == 900.0


@pytest.mark.parametrize(
    "lines",
    [
        (*steps(0, LEFT), *steps(1, LEFT), *steps(2, LEFT[:3])),  # it may yet come
        (*steps(0, LEFT), *steps(1, LEFT), *steps(2, LEFT[:3]), ended(2, 3200.0, 3)),  # rank 2 counts otherwise
        (*steps(0, LEFT), *steps(1, LEFT), *steps(2, LEFT[:3]), ended(2, 2800.0, 3)),  # two more: they may be behind
        (*steps(0, LEFT), *steps(1, LEFT), *steps(2, [1500.0, 2100.0, 2650.0]), ended(2, 2660.0, 3)),  # longer steps
    ],
)
def test_a_rank_that_is_late_or_counts_otherwise_is_not_left_out(lines: tuple[dict[str, Any], ...]) -> None:
    assert list(read_run(program(*lines)).whole) == [0, 1, 2]


@pytest.mark.parametrize(
    ("began_ms", "stall_ms"),
    [
        (1640.0, 400.0),  # confirmed at 1455 at the latest, 100 that receive buffers take, and 200 of an iteration
        (1760.0, 0.0),
    ],
)
def test_a_stall_may_begin_as_late_as_the_next_operation_of_a_program_that_computes(
    began_ms: float, stall_ms: float
) -> None:
    ends = [1200.0, 1400.0, 1600.0, 2300.0]
    lines = program(*(line for rank in range(3) for line in steps(rank, ends)), still(0, began_ms, 400.0))
    (cable,) = run_figures(read_run(lines), 1, iterations=4).faults
    assert cable.stall_ms == stall_ms


@pytest.mark.parametrize(("began_ms", "stall_ms"), [(1990.0, 400.0), (2001.0, 0.0)])
def test_a_stall_that_began_after_the_undo_is_not_the_faults(began_ms: float, stall_ms: float) -> None:
    """Steps of 1,300; undone at 2000."""
    ends = [1440.0, 2740.0, 4040.0]
    said = [step(rank, i, end - 1300.0, end) for rank in range(3) for i, end in enumerate(ends)]
    (cable,) = run_figures(read_run(program(*said, still(0, began_ms, 400.0))), 1, iterations=3).faults
    assert cable.stall_ms == stall_ms
