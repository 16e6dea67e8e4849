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
from harness.schemas import plain, problems
from reports.commands.compare import compare as command
from reports.compare import text
from reports.compare.groups import Group, arms_of, chosen, grouped
from reports.compare.model import Compared, compare
from reports.store.entry import Entry, Figure, Traffic

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


def test_two_arms_of_a_run_that_says_nothing_say_so_once() -> None:
    void = _run("a", QUIET, verdict="void")
    assert compare(Group("stock", (void,)), Group("migrate", (void,))).verdict == (
        "not comparable because a says nothing: it is void"
    )


def test_what_differs_is_named_and_repeats_are_one_group() -> None:
    runs = [_run("a1", QUIET), _run("a2", QUIET), _run("b1", QUIET, build_id="b2"), _run("b2", QUIET, build_id="b2")]
    groups = grouped(runs)
    assert [(group.label, len(group.runs)) for group in groups] == [("build b1 (2 runs)", 2), ("build b2 (2 runs)", 2)]
    found = compare(*groups)
    assert found.differs == ("build: b1 -> b2",)
    assert found.grouping == "grouped by build: 2 runs before, 2 runs after"
    assert found.rows[0].runs == (12, 12)
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
    assert found[0].rows[0].outcome == "worse"
    assert [text.size(count) for count in (1 << 30, 3 << 20, 1 << 10, 1000)] == ["1 GiB", "3 MiB", "1 KiB", "1000 B"]


def _moved(arm: str, repeat: int, **sent: int) -> tuple[Traffic, ...]:
    return tuple(Traffic(arm, repeat, "h0", nic, count) for nic, count in sent.items())


def test_bytes_per_nic_and_their_largest_change() -> None:
    before = _run(
        "a", QUIET, traffic=(*_moved("migrate", 0, eth0=90, eth1=100), *_moved("migrate", 1, eth0=110, eth1=100))
    )
    after = _run("b", QUIET, traffic=_moved("migrate", 0, eth0=10, eth1=150, eth2=40))
    found = compare(Group("a", (before,)), Group("b", (after,)))
    assert [(row.nic, row.before_bytes, row.after_bytes) for row in found.nics] == [
        ("eth0", 100, 10), ("eth1", 100, 150), ("eth2", None, 40),
    ]  # fmt: skip
    assert [row.share_change for row in found.nics] == [pytest.approx(-0.45), pytest.approx(0.25), None]
    assert text.about(found)[-1] == (
        "bytes per NIC, migrate: the largest change is h0/eth0: 50.0 % of all sent bytes -> 5.0 % (-45.0 points)"
    )
    assert "| migrate | h0/eth1 | 0.0001 MB | 50.0 % | 0.00015 MB | 75.0 % | +25.0 points |" in text.markdown([found])
    rows = [row for row in csv.DictReader(io.StringIO(text.comma_separated([found]))) if row["name"] == "tx_bytes"]
    assert next((row["nic"], row["before"], row["after_share"]) for row in rows) == ("eth0", "100", "0.05")
    assert problems("compare", plain(Compared([found]))) == []
    same = compare(Group("a", (before,)), Group("b", (before,)))
    assert text.about(same)[-1] == "bytes per NIC, migrate: every share is as before, to 0.1 points"
    assert text.nic_cells(same.nics[0])[-1] == "+0.0 points"
    bed = replace(after, bed="vm")
    assert compare(Group("a", (before,)), Group("b", (bed,))).nics == ()


def test_of_many_nics_people_see_those_that_changed_most() -> None:
    names = [f"eth{number}" for number in range(40)]
    even, uneven = dict.fromkeys(names, 100), {name: 100 + number * number for number, name in enumerate(names)}
    runs = [
        _run(str(number), QUIET, traffic=_moved("migrate", 0, **sent)) for number, sent in enumerate((even, uneven))
    ]
    found = compare(*grouped(runs))
    assert len(found.nics) == 40
    shown = [row.nic for row in text.shown_nics(found)]
    assert len(shown) == text.MOST_NICS and "eth39" in shown and "eth22" not in shown
    assert text.left_out(found) == "24 more NICs changed less; --format csv and json have them all"


def test_one_arm_of_one_run_against_another_arm_of_another() -> None:
    other = tuple(Figure("stock", n, "healthy_ms", "ms", 1 << 20, value * 2, 90.0) for n, value in enumerate(QUIET))
    first = _run("a", QUIET)
    both = replace(
        first, arms=("migrate", "stock"), figures=(*first.figures, *other), traffic=_moved("stock", 0, eth0=7)
    )
    second = replace(_run("b", QUIET), traffic=_moved("migrate", 0, eth0=7))
    sides = grouped(chosen([both, second], ["stock", "migrate"]))
    found = compare(*sides)
    assert (found.before, found.after, found.verdict) == ("a:stock", "b:migrate", "better")
    assert found.grouping == "grouped by arms: 1 run before, 1 run after"
    assert found.differs == ("arms: stock -> migrate",)
    assert [row.arm for row in (*found.rows, *found.nics)] == ["*", "*"]
    assert [run.id for run in chosen([both, second], ["stock", None])] == ["a:stock", "b:migrate"]
    with pytest.raises(UsageError, match="say which arm of a is meant"):
        chosen([both, second], [None, "migrate"])
    with pytest.raises(UsageError, match="a has no arm 'balance'"):
        chosen([both, second], ["balance", "migrate"])


def test_the_groups_say_in_what_they_differ() -> None:
    runs = [_run("a", QUIET), _run("b", QUIET), _run("c", QUIET, bed="vm"), _run("d", QUIET, bed="vm")]
    sides = grouped(runs)
    assert [side.label for side in sides] == ["bed lab (2 runs)", "bed vm (2 runs)"]
    assert compare(*sides).verdict == "not comparable because bed differs (lab against vm)"


def test_the_command(tmp_path: Path) -> None:
    for name, factor in (("20260101T000000Z-a", 1.0), ("20260102T000000Z-a", 1.2)):
        (tmp_path / name).mkdir()
        moved = {"h0": {"eth0": {"tx_bytes": 300}, "eth1": {"tx_bytes": 100 if factor == 1.0 else 300}}}
        runs = [
            {"run": n, "healthy_ms": {"median": value * factor}, "faults": [], "metrics": [], "bytes_per_nic": moved}
            for n, value in enumerate(QUIET)
        ]
        summary = {"experiment": "a", "verdict": "holds", "bed": "lab", "hardware": {"fingerprint": "f"}}
        arms = [{"name": "migrate", "runs": runs}, {"name": "balance", "runs": runs[:1]}]
        (tmp_path / name / "summary.json").write_text(json.dumps({**summary, "arms": arms}))
    names, run = ["20260101", "20260102", "--store", str(tmp_path)], CliRunner()
    shown = run.invoke(command, names).output
    assert "20260102T000000Z-a against 20260101T000000Z-a: worse" in shown
    assert "bytes per NIC, migrate: the largest change is h0/eth0: 75.0 % of all sent bytes -> 50.0 %" in shown
    told = json.loads(run.invoke(command, [*names, "--json"]).stdout)
    assert problems("compare", told) == []
    assert told["comparisons"][0]["verdict"] == "worse"
    by_path = run.invoke(
        command, [f"{tmp_path}/20260101T000000Z-a/", str(tmp_path / "20260102T000000Z-a"), "--format", "md"]
    )
    assert "**worse**" in by_path.output
    told = json.loads(
        run.invoke(command, ["20260101:migrate", "20260102:balance", "--store", str(tmp_path), "--json"]).output
    )
    assert told["comparisons"][0]["grouped_by"] == ["arms"]
    assert isinstance(run.invoke(command, ["20260101:balance", "--store", str(tmp_path)]).exception, UsageError)
