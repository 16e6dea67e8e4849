"""More repeats where medians leave something open, and none where they do not."""

from __future__ import annotations

import chaos_literal as literal
import pytest
from test_chaos_verdict import HARDWARE, REPEATED, repeated, spoil

from chaos.analysis.more import more_repeats
from chaos.analysis.summary import summarize


def wanted(lines: list[literal.Line], text: str = REPEATED, left: int = 3) -> int:
    experiment = literal.loads(text, literal.Path("x.yaml"))
    whole = summarize(lines, experiment, ("stock", "migrate"), bed="lab", hardware=HARDWARE, build_id="b")
    return more_repeats(whole.arms, experiment.hypothesis_of, left)


@pytest.mark.parametrize(
    ("slow", "void", "more"),
    [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 2, 1), (0, 3, 1), (2, 0, 3), (3, 0, 0)],
)
def test_void_repeats_are_made_up_for_and_torn_ones_doubled(slow: int, void: int, more: int) -> None:
    """Two slow of three: the median is over its limit, one repeat is not. All three: so it is."""
    assert wanted(repeated(slow, void)) == more
    assert wanted(repeated(slow, void), left=0) == 0
    assert wanted(repeated(slow, void), REPEATED.replace("times: median", "times: each")) == 0


def test_what_is_wrong_is_wrong_however_often() -> None:
    assert wanted(spoil(repeated(void=2), "iteration", "migrate", wrong_elements=1)) == 0
    assert wanted(spoil(repeated(void=2), "bench_end", "migrate", max_rss_bytes=90_000_000)) == 0
    assert wanted(spoil(repeated(void=2), "run_end", "migrate", outcome="failed", reason="gone")) == 0


def test_a_busy_repeat_of_stock_leaves_a_pair_less() -> None:
    lines = repeated(void=1)
    busy = [
        {**line, "busy": 0.95} if (line["event"], line["arm"], line["run"]) == ("cpu", "stock", 0) else line
        for line in lines
    ]
    assert wanted(busy) == 1
    assert wanted([{**line, "busy": 0.4} if line["event"] == "cpu" else line for line in busy]) == 0


def test_what_no_repeat_can_tell_is_not_asked_again() -> None:
    never = [*literal.MIGRATE_MS[:7], 150, 150, 150]
    lines = [
        line
        for run in range(3)
        for line in literal.lines("stock", run) + literal.lines("migrate", run, durations=never)
    ]
    assert wanted(lines) == 0


@pytest.mark.parametrize(("slower", "more"), [(0, 0), (1, 0), (2, 3), (3, 3)])
def test_a_ratio_over_its_limit_is_measured_again(slower: int, more: int) -> None:
    """Healthy iterations of 102 ms instead of 100 in so many of three repeats, where 1 % is allowed."""
    lines: list[literal.Line] = []
    for run in range(3):
        took = [102 if ms == 100 and run < slower else ms for ms in literal.MIGRATE_MS]
        lines += literal.lines("stock", run) + literal.lines("migrate", run, durations=took)
    assert wanted(lines) == more
