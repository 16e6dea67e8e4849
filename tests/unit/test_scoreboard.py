"""The scoreboard: takes are kept and counted by code, figures found and judged, and the pages are up to date."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from processes import with_word
from waits import until

from chaos.experiment.file import load as load_experiment
from harness.errors import InfraError, InputErrors, UsageError
from harness.facts.environment import hardware
from harness.schemas import problems
from reports.commands.results import results
from reports.scoreboard import figures, measured, pages, takes
from reports.scoreboard.board import Board, Cell, Wanted, load
from reports.scoreboard.figures import Found
from reports.scoreboard.takes import Shelf, Take, Version

ROOT = Path(__file__).parents[2]
BOARD = """
schema: 1
title: Small
cells:
  - {name: one, group: G, title: First, where: two_cores, run: [benchmarks/x.py], minutes: 2, takes: 2,
     figures: [{of: '^time$', label: the time, readme: true, missed: it is slow}]}
  - {name: gpu, group: G, title: Second, where: four_gpus, run: [r2cc, chaos, run, x.yaml], minutes: 2,
     figures: [{of: 'exact', label: wrong elements, aim: 0}]}
"""
NOW = Version("abc", "code1")


def entry(measured: float | None, void: bool = False) -> dict[str, Any]:
    return {"name": "time", "measured": measured, "bound": 10.0, "unit": "ms", "at_least": False, "void": void}


def take(value: float | None, *, code: str = "code1", at: str = "2026-01-01T00:00:00Z", void: bool = False) -> Take:
    report = {"figures": [entry(value, void)]}
    return Take("one", "abc", code, at, hardware(), [], ["benchmarks/x.py"], 1.0, 0, report)


@pytest.fixture
def board(tmp_path: Path) -> Path:
    path = tmp_path / "board.yaml"
    path.write_text(BOARD)
    return path


def the_row(loaded: Board, *found: Take) -> figures.Row:
    return figures.row(loaded.cells[0], loaded.cells[0].figures[0], found)


@pytest.mark.parametrize(
    ("found", "verdict", "middle"),
    [
        ([], "not measured", None),
        ([take(9.0)], "held", 9.0),
        ([take(9.0), take(30.0), take(11.0)], "missed", 11.0),
        ([take(None)], "missed", None),
        ([take(9.0, void=True), take(30.0)], "missed", 30.0),
        ([take(9.0, void=True), take(9.0, void=True), take(30.0)], "void", 30.0),
    ],
)
def test_a_figure_is_judged_by_the_median_of_takes_that_are_not_void(
    board: Path, found: list[Take], verdict: str, middle: float | None
) -> None:
    row = the_row(load(board), *found)
    assert (row.verdict, row.middle) == (verdict, middle)


def test_an_interval_needs_six_takes_and_a_p99_twenty(board: Path) -> None:
    loaded = load(board)
    few, some, many = (the_row(loaded, *[take(float(n)) for n in range(count)]) for count in (5, 6, 20))
    assert few.interval is None and some.interval == (0.0, 5.0)
    assert some.p99 is None and many.p99 == pytest.approx(18.81)


def test_an_aim_of_the_board_goes_before_the_benchmarks_bound(board: Path) -> None:
    cell = load(board).cells[0]
    wanted = Wanted(of="^time$", label="t", aim=5.0, at_least=True)
    assert figures.row(cell, wanted, [take(9.0)]).verdict == "held"
    assert figures.row(cell, wanted, [take(4.0)]).verdict == "missed"


def test_an_experiments_summary_has_figures_by_arm() -> None:
    report = json.loads((ROOT / "docs/results/raw/jobs/all_reduce-stock-balance.json").read_text())
    found = {each.name: each for each in figures.of(report)}
    assert found["balance: completes"] == Found("balance: completes", 1.0, 1.0, "bool", True, False)
    (longest,) = [
        each for name, each in found.items() if name.startswith("stock: fault") and name.endswith("longest_ms")
    ]
    assert longest.value is not None and longest.value > 3000 and longest.unit == "ms"
    assert found["stock: metric failovers"].unit == "connections"


def test_an_expression_finds_one_figure_of_a_take_and_no_other(board: Path) -> None:
    cell = load(board).cells[0]
    assert figures.unclear(cell, take(1.0)) == []
    (none,) = figures.unclear(replace_of(cell, "^gone$"), take(1.0))
    assert none == "'^gone$' finds none of the whole command; time"
    (several,) = figures.unclear(replace_of(cell, "m"), take(1.0))
    assert several == "'m' finds several: the whole command; time"
    assert figures.row(replace_of(cell, "^the whole"), Wanted(of="^the whole", label="t"), [take(1.0)]).middle == 1.0


def replace_of(cell: Cell, of: str) -> Cell:
    return cell.model_copy(update={"figures": (cell.figures[0].model_copy(update={"of": of}),)})


def test_a_take_that_lacks_a_figure_is_not_kept(board: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board.write_text(BOARD.replace("^time$", "^times$"))
    ended, said = go(board, monkeypatch)
    assert (ended.measured, ended.failed) == ([], ["one"]) and not Shelf(board).takes("one")
    assert any("'^times$' finds none of" in text for text in said)


def test_what_is_judged_over_all_repeats_and_ratios_are_figures() -> None:
    report = json.loads((ROOT / "docs/results/raw/jobs/all_reduce-stock-balance.json").read_text())
    found = {each.name: each for each in figures.of(report)}
    assert found["balance: identical"].value == 1.0
    (fault,) = [arm["runs"][0] for arm in report["arms"] if arm["name"] == "stock"]
    ratio = next(each for name, each in found.items() if name.startswith("stock: fault") and "longest of" in name)
    assert ratio.value == pytest.approx(fault["faults"][0]["longest_ms"] / fault["healthy_ms"]["median"])
    balance = next(arm["runs"][0]["faults"][0] for arm in report["arms"] if arm["name"] == "balance")
    known = next(each for name, each in found.items() if name.startswith("balance: fault") and "detect_ms" in name)
    assert known.value == balance["detect_ms"] is not None


def test_only_an_arm_that_is_expected_to_hold_has_aims() -> None:
    check = {"name": "completes", "outcome": "deviated", "value": False, "bound": True, "unit": "bool"}
    arm = {"name": "stock", "checks": [check], "metrics": [], "runs": []}
    bounds = {
        expect: [each.bound for each in figures.of({"arms": [{**arm, "expect": expect}]})]
        for expect in ("deviates", "holds")
    }
    assert bounds == {"deviates": [None], "holds": [1.0]}


def of_experiments() -> list[Cell]:
    return [
        cell for cell in load(ROOT / "docs/results/scoreboard.yaml").cells if cell.run[:3] == ("r2cc", "chaos", "run")
    ]


@pytest.mark.parametrize("cell", of_experiments(), ids=lambda cell: cell.name)
def test_our_cells_ask_for_arms_and_faults_that_their_experiment_has(cell: Cell) -> None:
    words = list(cell.run)
    asked = load_experiment(ROOT / words[3])
    arms = words[words.index("--arms") + 1].split(",") if "--arms" in words else [*asked.arms]
    assert set(arms) <= set(asked.arms)
    for wanted in cell.figures:
        arm, _, what = wanted.of.removeprefix("^").partition(": ")
        assert arm in arms or wanted.of.startswith("^the whole"), wanted.of
        assert not what.startswith("fault") or asked.faults, wanted.of


def test_our_cells_name_benchmarks_that_there_are() -> None:
    named = {cell.run[0] for cell in load(ROOT / "docs/results/scoreboard.yaml").cells} - {"r2cc"}
    assert all((ROOT / name).is_file() for name in named) and named


def test_only_takes_of_the_newest_code_count() -> None:
    old, new = take(1.0, code="old"), take(2.0, code="new", at="2026-01-02T00:00:00Z")
    assert figures.newest([new, old]) == [new]
    assert figures.newest([]) == []


def test_takes_are_kept_one_by_one_and_read_again(board: Path) -> None:
    shelf = Shelf(board)
    first, second = shelf.add(take(1.0)), shelf.add(take(2.0))
    assert [path.name for path in (first, second)] == ["0001.json", "0002.json"]
    assert problems("scoreboard_take", json.loads(first.read_text())) == []
    assert [asdict(each) for each in shelf.takes("one")] == [asdict(take(1.0)), asdict(take(2.0))]
    first.write_text("{}")
    with pytest.raises(UsageError, match="no take of a scoreboard"):
        shelf.takes("one")


def go(board: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[measured.Ended, list[str]]:
    said: list[str] = []
    monkeypatch.setattr(measured, "version", lambda _: NOW)
    monkeypatch.setattr(measured, "gpus", list)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})  # two cores, whatever this run may use
    monkeypatch.setattr(measured, "build", lambda quiet: said.append("built"))
    monkeypatch.setattr(measured, "measure", lambda cell, *_, **__: take(float(len(said))))
    wanted = {"minutes": None, "again": False, "dry_run": False, "quiet": True, **options}
    return measured.go(load(board).cells, Shelf(board), ROOT, tell=said.append, **wanted), said


def test_what_is_measured_stays_measured(board: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dry, said = go(board, monkeypatch, dry_run=True)
    assert dry.measured == [] and not Shelf(board).takes("one") and "built" not in said
    first, said = go(board, monkeypatch)
    assert first.measured == ["one", "one"] and said.count("built") == 1
    assert first.elsewhere == ["gpu"] and any("four GPUs" in text for text in said)
    assert go(board, monkeypatch)[0].had == ["one"]
    assert go(board, monkeypatch, again=True)[0].measured == ["one"]
    assert len(Shelf(board).takes("one")) == 3


def test_no_cell_begins_that_would_take_longer_than_what_is_left(board: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended, _ = go(board, monkeypatch, minutes=1.0)
    assert (ended.measured, ended.left) == ([], ["one"])


def test_a_cell_without_figures_is_named(board: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takes, "_run", lambda *_, **__: (2, "no such file"))
    with pytest.raises(InfraError, match="one: it ended with 2 and gave no figures"):
        takes.measure(load(board).cells[0], NOW, [], quiet=True)
    monkeypatch.setattr(takes, "_run", lambda *_, **__: (1, 'progress\n{"figures": []}'))
    assert takes.measure(load(board).cells[0], NOW, [], quiet=True).report == {"figures": []}


def test_nothing_is_left_of_a_command_that_does_not_end() -> None:
    mine = f"61.{os.getpid()}"  # no other run of this test has it
    began = time.monotonic()
    assert takes._run(["sh", "-c", f"sleep {mine} & wait"], 0.3, quiet=True) == (None, "")
    assert time.monotonic() - began < 50
    until(lambda: not with_word(mine), "something runs on")  # killed, which takes a moment


def test_pages_say_what_was_found(board: Path, tmp_path: Path) -> None:
    loaded, shelf = load(board), Shelf(board)
    shelf.add(take(11.0))
    rows = figures.rows(loaded, shelf)
    text = pages.markdown(loaded, rows, "board")
    assert "| the time | 11 ms | – | ≤ 10 | missed | – |" in text and "it is slow" in text
    assert "Not measured yet: needs four GPUs." in text
    assert "one,the time,ms,11.0" in pages.comma_separated(rows)
    assert 'class="bad">missed<' in pages.html(loaded, rows)
    readme = tmp_path / "README.md"
    readme.write_text(f"a\n{pages.BEGIN}\nearlier words\n{pages.END}\nb\n")
    words = ["render", str(board), "--readme", str(readme)]
    assert CliRunner().invoke(results, [*words, "--check"]).exit_code == 1
    assert CliRunner().invoke(results, words).exit_code == 0
    assert CliRunner().invoke(results, [*words, "--check"]).exit_code == 0
    assert "First: the time | 11 ms" in readme.read_text() and "earlier words" not in readme.read_text()


def test_readme_quotes_only_what_was_measured(board: Path) -> None:
    loaded = load(board)
    text = pages.quoted(f"a\n{pages.BEGIN}\n{pages.END}\nb\n", figures.rows(loaded, Shelf(board)))
    assert text == f"a\n{pages.BEGIN}\nNone of them was measured yet.\n{pages.END}\nb\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("benchmarks/x.py", "rm", "begins with r2cc"),
        ("'^time$'", "'('", "no regular expression"),
        ("name: gpu", "name: one", "two cells have the name one"),
        ("minutes: 2", "minutes: -1", "greater than 0"),
    ],
)
def test_every_mistake_of_a_board_is_told(board: Path, old: str, new: str, said: str) -> None:
    board.write_text(BOARD.replace(old, new, 1))
    with pytest.raises(InputErrors) as caught:
        load(board)
    assert any(said in text for text in caught.value.errors)


def test_our_pages_are_up_to_date() -> None:
    """`r2cc results render` makes them so."""
    result = CliRunner().invoke(results, ["render", "--check"])
    assert result.exit_code == 0, result.output
