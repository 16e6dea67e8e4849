"""A row of the scoreboard: how often it was measured, how far that spreads, and what older code measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.facts.environment import hardware
from reports.scoreboard import figures, pages
from reports.scoreboard.board import Cell, Wanted, load
from reports.scoreboard.figures import Row
from reports.scoreboard.takes import Shelf, Take

BOARD = Path(__file__).parents[2] / "docs/results/scoreboard.yaml"
CELL = Cell(
    name="one", group="G", title="T", where="two_cores", run=("benchmarks/x.py",), minutes=1,
    figures=(Wanted(of="^time", label="the time"),),
)  # fmt: skip


def take(*measured: float, name: str = "time", code: str = "new", bound: float | None = 10.0, **more: Any) -> Take:
    figure = {"name": name, "bound": bound, "unit": "ms", **more}
    report = {"figures": [{**figure, "measured": value} for value in measured]}
    at = "2026-01-02T00:00:00Z" if code == "new" else "2026-01-01T00:00:00Z"
    return Take("one", "abc", code, at, hardware(), [], list(CELL.run), 1.0, 0, report)


def row(*takes: Take, earlier: tuple[Take, ...] = ()) -> Row:
    return figures.row(CELL, CELL.figures[0], takes, earlier)


def test_few_repeats_show_all_that_was_measured() -> None:
    assert pages.spread(row(take(9.0))) == ""
    assert pages.spread(row(take(9.0, 30.0, 11.0))) == "all: 9-30"
    assert pages.spread(row(*[take(float(n)) for n in range(6)])) == "95 %: 0-5"


def test_a_value_has_the_spread_that_its_benchmark_says() -> None:
    many = row(take(1.02, low=1.01, high=1.03, repeats=40))
    assert (pages.spread(many), pages.repeats(many)) == ("95 %: 1.01-1.03", "40")
    few = row(take(5.0, low=4.0, high=7.0, repeats=3))
    assert (pages.spread(few), pages.repeats(few)) == ("all: 4-7", "3")
    named = row(take(1.02, name="time over stock's, 95 % in 1.007..1.035; stock again 0.990 (0.965..1.001)"))
    assert (pages.spread(named), pages.repeats(named)) == ("95 %: 1.007-1.035", pages.NONE)


def test_a_median_that_keeps_to_the_aim_does_not_hide_those_that_do_not() -> None:
    assert pages.verdict(row(take(9.0, 8.0, 11.0))) == "held (2 of 3)"
    assert pages.verdict(row(take(9.0, 11.0, 12.0))) == "missed (1 of 3)"
    assert pages.verdict(row(take(9.0, 8.0))) == "held"
    assert pages.verdict(row(take(12.0, 11.0))) == "missed"


def test_what_older_code_measured_is_told() -> None:
    earlier = (take(9.0, code="old"), take(12.0, code="old"), take(90.0, code="old", void=True))
    assert pages.older(row(take(9.0), earlier=earlier)) == "1 of 2 held: 9-12"
    assert pages.older(row(take(9.0))) == ""
    assert pages.older(row(take(9.0, bound=None), earlier=earlier[:1])) == "9"


def test_older_takes_of_another_command_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "board.yaml"
    path.write_text(
        "schema: 1\ntitle: Small\ncells:\n  - {name: one, group: G, title: T, where: two_cores, minutes: 1,"
        " run: [benchmarks/x.py, --hosts, '4'], figures: [{of: '^time', label: the time}]}\n"
    )
    shelf = Shelf(path)
    shelf.add(take(1.0, code="older"))
    (found,) = figures.rows(load(path), shelf)
    assert found.values == [1.0] and found.before == []
    same = take(2.0, code="old")
    for each in (same, take(3.0)):
        shelf.add(Take(**{**vars(each), "command": ["benchmarks/x.py", "--hosts", "4"]}))
    (found,) = figures.rows(load(path), shelf)
    assert found.values == [3.0] and found.before == [2.0]


@pytest.mark.parametrize(
    ("value", "aim", "shown", "said"),
    [
        (1.0304, 1.03, "1.0304 ms", "≤ 1.03"),
        (1.03, 1.03, "1.03 ms", "≤ 1.03"),
        (0.9, 1.002, "0.9 ms", "≤ 1.002"),
        (5.0, 1000.0, "5 ms", "≤ 1,000"),
        (0.0, 0.0, "0 ms", "≤ 0"),
    ],
)
def test_on_which_side_of_its_aim_a_figure_is_can_be_seen(value: float, aim: float, shown: str, said: str) -> None:
    found = row(take(value, bound=aim))
    assert (pages.measured(found), pages.aim(found)) == (shown, said)


def test_every_figure_that_we_miss_says_why() -> None:
    rows = figures.rows(load(BOARD), Shelf(BOARD))
    assert [
        f"{row.cell.name}: {row.wanted.label}" for row in rows if row.verdict == "missed" and not pages.why(row)
    ] == []


def test_a_browsers_page_says_why_a_figure_is_missed() -> None:
    board = load(BOARD)
    rows = figures.rows(board, Shelf(BOARD))
    reasons = sum(bool(pages.why(row)) for row in rows)
    assert pages.html(board, rows).count("<small>") == reasons > 0
