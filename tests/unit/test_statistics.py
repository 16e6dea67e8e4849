"""What is said of figures: on literal numbers, and by simulation of what must be found and what must not."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from harness.errors import UsageError
from reports.statistics.changes import FEWEST, changes
from reports.statistics.gate import Series, judge
from reports.statistics.holm import adjusted
from reports.statistics.shift import _u_counts, p_value, shift

POSITIVE = st.floats(0.1, 1e6)


def test_mann_whitneys_counts_are_the_textbooks() -> None:
    # Mann and Whitney (1947), table I: n = 3, m = 2 has 10 orders, U = 0, 1, 2, 3 in 1, 1, 2, 2 of them.
    assert _u_counts(3, 2) == [1, 1, 2, 2, 2, 1, 1]
    assert sum(_u_counts(12, 12)) == math.comb(24, 12)


def test_samples_that_do_not_overlap() -> None:
    # Of the 20 orders of 3 and 3, one has all of the second above: two-sided 2/20.
    assert p_value([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]) == pytest.approx(0.1)
    assert p_value([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == pytest.approx(1.0)


@given(st.lists(POSITIVE, min_size=2, max_size=9), st.lists(POSITIVE, min_size=2, max_size=9))
@example([2.0] * 4, [2.0] * 5)
def test_the_p_value_is_scipys_without_ties(before: list[float], after: list[float]) -> None:
    several = len({*before, *after}) < len(before) + len(after)
    expected = mannwhitneyu(after, before, method="asymptotic" if several else "exact").pvalue
    assert p_value(before, after) == pytest.approx(1.0 if len({*before, *after}) == 1 else expected, rel=1e-9)


@given(st.lists(st.integers(1, 6), min_size=2, max_size=30), st.lists(st.integers(1, 6), min_size=2, max_size=30))
def test_the_p_value_is_scipys_with_ties(before: list[int], after: list[int]) -> None:
    assume(1 < len({*before, *after}) < len(before) + len(after))
    expected = mannwhitneyu(after, before, method="asymptotic").pvalue
    assert p_value(before, after) == pytest.approx(expected, rel=1e-9)


def test_the_shift_and_its_interval_by_hand() -> None:
    before, after = [1.0, 2.0, 4.0], [2.0, 4.0, 8.0]
    found = shift(before, after)
    # Ratios: 2 4 8, 1 2 4, 1/2 1 2: the median is 2; three and three allow no narrower interval than all of them.
    assert found.ratio == pytest.approx(2.0)
    assert [found.low, found.high] == [pytest.approx(0.5), pytest.approx(8.0)]


def test_the_interval_is_the_textbooks() -> None:
    # Hollander, Wolfe and Chicken: for 12 and 12 at 95 % the 38th smallest and the 38th largest of 144 differences
    # (P(U <= 37) = 0.0226).
    counts = _u_counts(12, 12)
    assert sum(counts[:38]) / math.comb(24, 12) == pytest.approx(0.0226, abs=5e-4)
    before, after = [math.exp(n) for n in range(12)], [math.exp(n + 0.25) for n in range(12)]
    differences = sorted(b - a + 0.25 for a in range(12) for b in range(12))
    found = shift(before, after)
    assert math.log(found.low) == pytest.approx(differences[37])
    assert math.log(found.high) == pytest.approx(differences[144 - 38])


@given(st.lists(POSITIVE, min_size=2, max_size=9), st.lists(POSITIVE, min_size=2, max_size=9))
def test_the_shift_turns_round_with_its_sides(before: list[float], after: list[float]) -> None:
    there, back = shift(before, after), shift(after, before)
    assert there.ratio == pytest.approx(1 / back.ratio, rel=1e-9)
    assert [there.low, there.high] == [pytest.approx(1 / end, rel=1e-9) for end in (back.high, back.low)]
    assert there.low <= there.ratio * (1 + 1e-12)
    assert there.ratio <= there.high * (1 + 1e-12)
    assert 0 < there.p <= 1


@pytest.mark.parametrize(
    ("before", "after"), [([1.0], [1.0, 2.0]), ([1.0, 0.0], [1.0, 2.0]), ([1.0, math.nan], [1.0, 2.0])]
)
def test_what_has_no_shift(before: list[float], after: list[float]) -> None:
    with pytest.raises(ValueError, match="figures"):
        shift(before, after)


def test_holm_on_his_own_terms() -> None:
    assert adjusted([0.01, 0.04, 0.03, 0.005]) == [pytest.approx(p) for p in (0.03, 0.06, 0.06, 0.02)]
    assert adjusted([0.5, 0.9]) == [1.0, 1.0]
    assert adjusted([]) == []


def _series(random: np.random.Generator, ratio: float = 1.0, runs: int = 12) -> Series:
    before, after = (100 * (1 + 0.01 * random.standard_normal(runs)) for _ in range(2))
    return Series("busbw", before.tolist(), (after * ratio).tolist(), more_is_better=True)


def test_the_gate_finds_a_regression_of_5_percent_and_no_more() -> None:
    random, many = np.random.default_rng(1), 200
    quiet = [judge([_series(random) for _ in range(4)]) for _ in range(many)]
    assert sum(any(each.outcome != "no difference shown" for each in found) for found in quiet) <= 0.03 * many
    worse = [judge([_series(random, 0.95), _series(random)])[0] for _ in range(many)]
    assert sum(found.outcome == "worse" for found in worse) >= 0.95 * many
    held = sum(found.shift.low <= 0.95 <= found.shift.high for found in worse)
    assert held >= 0.90 * many
    assert judge([_series(random, 1.05)])[0].outcome == "better"


def test_the_gate_says_what_it_found_and_whether_less_is_better() -> None:
    before, after = [float(n) for n in range(100, 112)], [float(n) for n in range(120, 132)]
    (found,) = judge([Series("stall_ms", before, after, more_is_better=False)])
    assert found.outcome == "worse"
    assert found.sentence.startswith("stall_ms: worse (+19.0 %, 95 % in +15.5..+22.5 %")
    (small,) = judge([Series("x", before, [value * 1.01 for value in before], more_is_better=True)])
    assert small.outcome == "no difference shown"


def test_the_gate_refuses_what_it_cannot_answer() -> None:
    few = Series("few", [1.0] * 11, [1.0] * 12, more_is_better=True)
    with pytest.raises(UsageError, match="too few runs of few"):
        judge([few])
    with pytest.raises(UsageError, match="5 series are too many"):
        judge([Series(str(n), [1.0, 2.0] * 6, [1.0, 2.0] * 6, more_is_better=True) for n in range(5)])


def _history(random: np.random.Generator, nights: int, changed: int | None = None) -> list[float]:
    """1 % of noise, and 5 % of nights that are bad for once by up to 40 %; 5 % less from night `changed` on."""
    figures = 100 * (1 + 0.01 * random.standard_normal(nights))
    bad = random.random(nights) < 0.05
    figures[bad] *= 1 - random.uniform(0.05, 0.4, bad.sum())
    if changed is not None:
        figures[changed:] *= 0.95
    return [float(figure) for figure in figures]


def test_quiet_histories_with_bad_nights_raise_no_alarm() -> None:
    random, many = np.random.default_rng(2), 150
    assert sum(bool(changes(_history(random, 60))) for _ in range(many)) <= 0.03 * many


def test_a_regression_of_5_percent_is_found_in_any_place() -> None:
    random, many = np.random.default_rng(3), 100
    for nights, changed in ((60, 50), (40, 20), (40, 10)):
        found = [changes(_history(random, nights, changed)) for _ in range(many)]
        assert sum(any(each.shift.ratio < 1 for each in those) for those in found) >= 0.95 * many
        near = sum(any(abs(each.index - changed) <= 2 for each in those) for those in found)
        assert near >= 0.8 * many


def test_two_changes_by_hand() -> None:
    noise = [0.5, 0.9, 0.1, 0.7, 0.3, 0.8, 0.2, 0.6, 0.4, 0.95, 0.05, 0.75, 0.25, 0.65, 0.45]
    high, low = [100 + each for each in noise], [90 + each for each in noise]
    figures = high + low + high
    found = changes(figures)
    assert [each.index for each in found] == [15, 30]
    assert found[0].shift.ratio == pytest.approx(0.9, abs=0.005)
    assert found[1].shift.ratio == pytest.approx(100 / 90, abs=0.01)
    assert changes(high * 3) == []


@given(st.lists(POSITIVE, max_size=2 * FEWEST - 1))
def test_too_few_figures_have_no_change(figures: list[float]) -> None:
    assert changes(figures) == []


@given(st.lists(st.sampled_from([1.0, 1.5, 2.0]), max_size=40))
def test_changes_come_in_order_and_far_enough_apart(figures: list[float]) -> None:
    places = [0, *(each.index for each in changes(figures)), len(figures)]
    assert places == sorted(places)
    if len(places) > 2:
        assert min(b - a for a, b in pairwise(places)) >= FEWEST
