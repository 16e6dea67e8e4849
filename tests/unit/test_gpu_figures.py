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
