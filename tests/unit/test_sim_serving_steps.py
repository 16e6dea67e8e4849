"""Steps at once against token by token; waiting times against the formulas of queues."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sim_double import Machines, Solver, fault, intervals, params

from chaos.simulate.serving.llms import llm
from chaos.simulate.serving.load import Length
from chaos.simulate.serving.pace import Paces, lines_s
from chaos.simulate.serving.service import Service
from chaos.simulate.serving.simulation import simulate

HERE = Machines(4)
CASES = {
    "two hosts": {"llm": llm("llama-3.1-405b"), "tp": 16, "rate": 1.0},
    "stages": {"llm": llm("llama-3.1-405b"), "tp": 8, "pp": 2, "rate": 1.0},
    "apart": {"llm": llm("llama-3.1-70b"), "tp": 8, "instances": 4, "prefills": 2, "rate": 9.0},
    "full": {"llm": llm("opt-66b"), "tp": 8, "rate": 4.0, "max_batch": 16},
    "no room": {"llm": llm("opt-66b"), "tp": 2, "instances": 2, "rate": 4.0},
}


@pytest.mark.parametrize("arm", ["stock", "kv_replication", "exclusion", "balance"])
@pytest.mark.parametrize("case", CASES)
def test_many_steps_at_once_are_token_by_token(case: str, arm: str) -> None:
    """With faults in the midst of it: the same times to rounding, the same tokens done again."""
    of = Service(**{"topology": HERE, "requests": 120, "output": Length(150, 0.9, 2048), **CASES[case]})  # type: ignore[arg-type]
    faults = [fault(15.0, 20.0), fault(60.0, 2.0, where=(1, 2)), fault(75.0, 500.0, where=(2, 1))]
    at_once, each = (
        simulate(of, arm, intervals(faults, HERE), Solver(HERE), params(), seed=2, fast=fast) for fast in (True, False)
    )
    for name in ("first_s", "finish_s", "gap_s"):
        np.testing.assert_allclose(at_once.requests[name], each.requests[name], rtol=1e-9, atol=1e-9, err_msg=name)
    assert at_once.redone_tokens == each.redone_tokens
    assert at_once.moved_bytes == pytest.approx(each.moved_bytes)
    assert at_once.outages_s == pytest.approx(each.outages_s)


lines = st.tuples(st.floats(0, 100), st.floats(0, 3))


@settings(max_examples=150, deadline=None)
@given(st.lists(lines, min_size=1, max_size=4), st.floats(0, 200), st.integers(1, 30), st.integers(1, 60))
@example([(0.0, 2.2250738585e-313), (1.0, 0.0)], 0.0, 1, 1)
def test_sums_over_the_highest_line(
    given_lines: list[tuple[float, float]], start: float, step: int, count: int
) -> None:
    brute = sum(max(base + slope * (start + at * step) for base, slope in given_lines) for at in range(count))
    assert lines_s(given_lines, start, step, count) == pytest.approx(brute, rel=1e-9, abs=1e-9)


def one_at_a_time(prompt: Length, load: float) -> tuple[Service, float, float]:
    """A queue with one server: no decoding, a batch of one. Returns it, the mean and the mean square of a service."""
    of = Service(llm("llama-3.1-8b"), HERE, tp=1, requests=60_000, prompt=prompt, output=Length(1), max_batch=1,
                 budget=1 << 17)  # fmt: skip
    pace = Paces(of, Solver(HERE), params()).pace("stock", ((1.0,) * 8,))
    assert pace is not None
    drawn = prompt.draw(200_000, np.random.default_rng(99))
    times = np.array([pace.step_s(tokens, tokens * (tokens + 1) / 2, tokens) for tokens in drawn.tolist()])
    return replace(of, rate=load / times.mean()), float(times.mean()), float((times**2).mean())


@pytest.mark.parametrize("prompt", [Length(500), Length(2000, 0.6, 100_000)], ids=["M/D/1", "M/G/1"])
def test_waiting_times_are_those_of_a_queue(prompt: Length) -> None:
    """Pollaczek and Khinchine: rate E[S^2] / (2 (1 - load)). Six standard errors, from 30 parts of the run."""
    load = 0.6
    of, mean_s, square = one_at_a_time(prompt, load)
    found = simulate(of, "stock", (), Solver(HERE), params(), seed=4)
    data = found.requests
    waits = data["first_s"] - data["arrival_s"]
    expected_s = mean_s + of.rate * square / (2 * (1 - load))
    parts = waits.reshape(30, -1).mean(axis=1)
    error_s = parts.std(ddof=1) / np.sqrt(len(parts))
    assert error_s < 0.03 * expected_s
    assert abs(parts.mean() - expected_s) < 6 * error_s
    assert abs(parts.mean() - mean_s) > 10 * error_s
