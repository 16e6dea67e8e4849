"""Faults that strike a row of nccl-tests where the program times nothing."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.analysis.figures import fault_figures
from chaos.analysis.rundata import RunData, read_run
from harness.workloads.reading.steps import OP

MS = 1_000_000
PROGRAM = {"program": "all_reduce_perf"}


def iteration(index: int, start_ms: int, end_ms: int, **more: Any) -> dict[str, Any]:
    span = {"start_ns": start_ms * MS, "end_ns": end_ms * MS}
    return {"event": "iteration", "t_ns": end_ms * MS, "rank": 0, "index": index, "wrong_elements": 0, **span, **more}


def run(
    struck_ms: int,
    *,
    lasts_ms: int = 300,
    stalled: bool = True,
    noise_ms: float = 0.0,
    sizes: tuple[int, int] = (8, 8),
    start: dict[str, Any] | None = None,
) -> RunData:
    """Two rows of two iterations of 10 ms, of 100 ms each; the second stalled for 300 ms where nothing is timed, and
    the first for `noise_ms`."""
    late = 300 if stalled else 0
    noise = {"beside_ms": noise_ms, "row": [0, 1], "row_ns": [0, 100 * MS]} if noise_ms else {}
    first, second = ({"bytes": size, "busbw_GBps": 1.0} for size in sizes)
    beside = {"beside_ms": 300.0, "row": [2, 3], "row_ns": [100 * MS, 500 * MS]} if stalled else {}
    fault = {"event": "fault", "id": "cable", "kind": "link_down", "host": "h0", "nic": "eth0"}
    begin = {"event": "bench_start", "t_ns": 0, "rank": 0, "host": "h0", "op": OP, "ranks": 2, "connections": []}
    lines: list[dict[str, Any]] = [
        {**begin, "nics": [], "bytes": 0, **(PROGRAM if start is None else start)},
        iteration(0, 20, 30, **first),
        iteration(1, 60, 70, **first, **noise),
        iteration(2, 120, 130, **second),
        iteration(3, 160 + late, 170 + late, **second, **beside),
        {**fault, "phase": "injected", "t_ns": struck_ms * MS, "before_ns": struck_ms * MS},
        {**fault, "phase": "reverted", "t_ns": (struck_ms + lasts_ms) * MS},
    ]
    return read_run(sorted(lines, key=lambda line: int(line["t_ns"])))


def figures(data: RunData) -> tuple[int | None, bool, float | None, float | None]:
    found = fault_figures(data, data.faults[0], 0)
    return found.at_iteration, found.hit, found.iteration_ms, found.longest_ms


def test_what_is_not_timed_was_hit_in_a_row_that_stalled() -> None:
    """It was said to have missed, so a run that had lost its cable for a second did not count."""
    assert figures(run(140)) == (3, True, 310.0, 310.0)


def test_an_iteration_that_was_in_flight_comes_first() -> None:
    assert figures(run(125)) == (2, True, 10.0, 310.0)


@pytest.mark.parametrize(("lasts_ms", "found"), [(300, (3, True, 10.0, 10.0)), (5, (None, False, None, 10.0))])
def test_of_a_row_that_did_not_stall_the_next_iteration_met_what_still_lasts(
    lasts_ms: int, found: tuple[int | None, bool, float | None, float | None]
) -> None:
    """Where in its row an iteration lies is a guess. A fault that was over before the next one began struck nothing."""
    assert figures(run(140, lasts_ms=lasts_ms, stalled=False)) == found


def test_a_row_that_stalled_as_much_without_a_fault_shows_no_hit() -> None:
    assert figures(run(140, lasts_ms=5, noise_ms=320)) == (None, False, None, 10.0)
    assert figures(run(140, lasts_ms=5, noise_ms=100)) == (3, True, 210.0, 210.0)


def test_iterations_of_the_size_that_was_struck_are_compared() -> None:
    found = fault_figures(data := run(140, sizes=(8, 4)), data.faults[0], 0)
    assert (found.at_iteration, found.iteration_ms, found.longest_ms) == (3, 310.0, 310.0)


def test_what_struck_before_the_first_iteration_is_not_guessed_at() -> None:
    assert figures(run(10, stalled=False))[:2] == (None, False)


def test_what_the_last_row_does_not_time_was_hit_where_it_stalled() -> None:
    """No iteration was in flight, nor came one."""
    assert figures(run(490)) == (3, True, 310.0, 310.0)


def test_it_missed_when_the_last_row_was_done() -> None:
    assert figures(run(600))[:2] == (None, False)


def test_a_program_whose_iterations_are_exact_is_not_guessed_at() -> None:
    assert figures(run(140, stalled=False, start={}))[:2] == (None, False)
