"""Runs beside each other: what is said, and what is not said because it cannot be."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.errors import UsageError
from harness.schemas import problems
from reports.compare import text
from reports.compare.model import Group, arms_of, compare, grouped
from reports.compare_cmd import compare as command
from reports.store.entry import Entry, Figure

QUIET = [100.0, 101.0, 99.5, 100.5, 99.0, 100.2]


def _run(name: str, values: list[float], *, figure: str = "healthy_ms", **changes: object) -> Entry:
    figures = tuple(Figure("migrate", n, figure, "ms", 1 << 20, value, 90.0) for n, value in enumerate(values))
    plain = Entry(name, None, "nic_down", "holds", 0, "lab", "f00", "b1", 1, ("migrate",), "r2cc", (), figures)
    return replace(plain, **changes)  # type: ignore[arg-type]


def _said(before: Entry, after: Entry) -> str:
    return compare(Group("a", (before,)), Group("b", (after,))).verdict


def test_better_worse_and_neither() -> None:
    slower = [value * 1.1 for value in QUIET]
    assert _said(_run("a", QUIET), _run("b", slower)) == "worse"
    assert _said(_run("a", slower), _run("b", QUIET)) == "better"
    assert _said(_run("a", QUIET), _run("b", [value * 1.001 for value in QUIET])) == "no difference shown"
    assert _said(_run("a", QUIET, figure="busbw"), _run("b", slower, figure="busbw")) == "better"
    few = _said(_run("a", QUIET[:3]), _run("b", slower[:3]))
    assert few == "no difference shown: fewer than 4 runs a side can show none"


def test_better_in_one_thing_and_worse_in_another() -> None:
    def both(name: str, stall: float, healthy: float) -> Entry:
        one = _run(name, [value * healthy for value in QUIET])
        return replace(
            one, figures=(*one.figures, *_run(name, [value * stall for value in QUIET], figure="stall_ms").figures)
        )

    assert _said(both("a", 1, 1), both("b", 0.5, 1.2)) == "better and worse"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"fingerprint": "other"}, "hardware differs (f00 against other)"),
        ({"bed": "vm"}, "bed differs (lab against vm)"),
        ({"experiment": "flap"}, "experiment differs (nic_down against flap)"),
        ({"verdict": "void"}, "b says nothing: it is void"),
    ],
)
def test_what_is_not_comparable(changes: dict[str, str], why: str) -> None:
    found = compare(Group("a", (_run("a", QUIET),)), Group("b", (_run("b", QUIET, **changes),)))
    assert found.verdict == f"not comparable because {why}"
    assert found.rows == ()


def test_what_differs_is_named_and_repeats_are_one_group() -> None:
    runs = [_run("a1", QUIET), _run("a2", QUIET), _run("b1", QUIET, build_id="b2"), _run("b2", QUIET, build_id="b2")]
    groups = grouped(runs)
    assert [(group.label, len(group.runs)) for group in groups] == [("b1 (2 runs)", 2), ("b2 (2 runs)", 2)]
    found = compare(*groups)
    assert found.differs == ("build: b1 -> b2",)
    assert found.rows[0].counts == (12, 12)
    assert [group.label for group in grouped(runs[:2])] == ["a1", "a2"]


def test_figures_that_one_side_lacks_and_those_of_the_measurement() -> None:
    extra = Figure("migrate", 0, "cpu_busy", "ratio", None, 0.5)
    stall = Figure("migrate", 0, "stall_ms", "ms", None, 5.0)
    ours, theirs = _run("a", QUIET), _run("b", QUIET)
    found = compare(Group("a", (ours,)), Group("b", (replace(theirs, figures=(*theirs.figures, extra, stall)),)))
    assert {row.name: row.outcome for row in found.rows} == {
        "healthy_ms": "no difference shown",
        "stall_ms": "only one has it",
    }


def test_arms_of_one_run() -> None:
    run = _run("a", QUIET)
    other = tuple(replace(figure, arm="stock", value=figure.value * 2) for figure in run.figures)
    groups = arms_of(replace(run, arms=("migrate", "stock"), figures=(*run.figures, *other)))
    assert compare(*groups).verdict == "worse"


def test_texts_say_the_same() -> None:
    found = [
        compare(Group("a", (_run("a", QUIET),)), Group("b", (_run("b", [v * 1.1 for v in QUIET], build_id="b2"),)))
    ]
    shown = text.markdown(found)
    assert "**b** against a: **worse**" in shown
    assert "- build: b1 -> b2" in shown
    assert "| migrate | healthy_ms [ms] | 1 MiB | 100.1 | 110.1 | +10.0 % |" in shown
    (row,) = csv.DictReader(io.StringIO(text.comma_separated(found)))
    assert (row["outcome"], row["size_bytes"]) == ("worse", "1048576")
    assert float(row["ratio"]) == pytest.approx(1.1, abs=0.01)
    assert json.loads(json.dumps(found[0].as_json()))["rows"][0]["outcome"] == "worse"
    assert [text.size(count) for count in (1 << 30, 3 << 20, 1 << 10, 1000)] == ["1 GiB", "3 MiB", "1 KiB", "1000 B"]


def test_the_command(tmp_path: Path) -> None:
    for name, factor in (("20260101T000000Z-a", 1.0), ("20260102T000000Z-a", 1.2)):
        (tmp_path / name).mkdir()
        runs = [
            {"run": n, "healthy_ms": {"median": value * factor}, "faults": [], "metrics": []}
            for n, value in enumerate(QUIET)
        ]
        summary = {"experiment": "a", "verdict": "holds", "bed": "lab", "hardware": {"fingerprint": "f"}}
        (tmp_path / name / "summary.json").write_text(
            json.dumps({**summary, "arms": [{"name": "migrate", "runs": runs}]})
        )
    names, run = ["20260101", "20260102", "--store", str(tmp_path)], CliRunner()
    assert "20260102T000000Z-a against 20260101T000000Z-a: worse" in run.invoke(command, names).output
    told = json.loads(run.invoke(command, [*names, "--json"]).output)
    assert problems("compare", told) == []
    assert told["comparisons"][0]["verdict"] == "worse"
    by_path = run.invoke(
        command, [str(tmp_path / "20260101T000000Z-a"), str(tmp_path / "20260102T000000Z-a"), "--format", "md"]
    )
    assert "**worse**" in by_path.output
    assert isinstance(run.invoke(command, names[1:]).exception, UsageError)
