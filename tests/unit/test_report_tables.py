"""Tables of a report: one stall of an arm wherever it stands, and figures that can be told from their limits."""

from __future__ import annotations

from typing import Any

import pytest
from summary_parts import arms

from chaos.analysis import void
from chaos.analysis.rundata import RunData
from harness.sites.inventory import parse
from harness.units import over
from reports.compare.text import NIC_HEADER
from reports.words import cells, tables

Json = dict[str, Any]


def _repeat(number: int, stall_ms: float | None, *, outcome: str, void: bool = False) -> Json:
    fault = {"id": "f0", "kind": "link_down", "host": "h0", "nic": "eth1", "stall_ms": stall_ms, "iteration_ms": None}
    check = {"name": "stall_ms(f0)", "outcome": outcome, "value": stall_ms, "bound": 12.0, "unit": "ms"}
    return {
        "run": number, "completed": True, "iterations": 9, "wrong_elements": 0, "faults": [fault], "checks": [check],
        "healthy_ms": {"median": 50.0 + number, "p99": 60.0}, "void": ["too busy"] if void else [],
    }  # fmt: skip


def _cells(*repeats: Json) -> tuple[cells.Cell, cells.Cell]:
    """Of the stall: among the arms side by side, and among the checks."""
    arm = {
        "name": "migrate",
        "expect": "holds",
        "verdict": "void",
        "as_expected": None,
        "runs": list(repeats),
        "checks": [],
    }
    side = next(row for row in tables.side_by_side(arms(arm)) if row.name.startswith("Stall"))
    (check,) = tables.checks(arms(arm))
    return side.cells[0], check.cells[0]


@pytest.mark.parametrize(
    ("repeats", "text", "state"),
    [
        ([(4.0, "void", True), (19.0, "void", True), (7.0, "void", True)], "19.0 ms", "void"),
        ([(None, "void", True), (6.0, "void", True)], "6.0 ms", "void"),
        ([(5.0, "holds", False), (9.0, "holds", False)], "9.0 ms", "good"),
        ([(900.0, "void", True), (9.0, "holds", False), (5.0, "holds", False)], "9.0 ms", "good"),
        ([(14.0, "deviated", False), (30.0, "deviated", False), (2.0, "holds", False)], "30.0 ms", "bad"),
        ([(12.00004, "deviated", False)], "12.00004 ms", "bad"),
    ],
)
def test_both_tables_have_the_same_stall(repeats: list[tuple[float | None, str, bool]], text: str, state: str) -> None:
    made = [_repeat(n, stall, outcome=outcome, void=empty) for n, (stall, outcome, empty) in enumerate(repeats)]
    for cell in _cells(*made):
        assert (cell.text, cell.note, cell.state) == (text, cell.note, state)
    assert _cells(*made)[1].note == "limit 12 ms"


@pytest.mark.parametrize(
    ("repeats", "medians", "side", "check"),
    [
        (1, 0, "Stall", "Stall (f0)"),
        (1, 1, "Stall", "Stall (f0)"),
        (3, 0, "Stall, worst of 3", "Stall (f0), worst of 3"),
        (3, 1, "Stall, worst of 3", "Stall (f0), median"),
    ],
)
def test_a_row_says_which_of_the_repeats_it_shows(repeats: int, medians: int, side: str, check: str) -> None:
    made = [_repeat(n, 4.0 + n, outcome="holds") for n in range(repeats)]
    judged = made[0]["checks"] * medians
    if medians:
        made = [{**repeat, "checks": []} for repeat in made]
    found = arms({"runs": made, "checks": judged})
    assert side in [row.name for row in tables.side_by_side(found)]
    assert [row.name for row in tables.checks(found)] == [check]


def test_no_two_rows_of_a_table_have_one_name() -> None:
    faults = [{"id": name, "kind": "link_down", "host": "h0", "nic": name} for name in ("eth0", "eth1")]
    rows = [row.name for row in tables.side_by_side(arms({"runs": [{"run": 0, "faults": faults}]}))]
    assert "Stall (eth1)" in rows and len(set(rows)) == len(rows)
    assert len(set(NIC_HEADER)) == len(NIC_HEADER)


def test_of_nothing_no_element_is_said_to_be_right() -> None:
    never = arms({"runs": []})
    wrong = next(row for row in tables.side_by_side(never) if row.name == "Wrong elements")
    assert [cell.plain() for cell in wrong.cells] == ["–"]
    assert not tables.checks(never)


def test_void_repeats_are_as_exact_as_others() -> None:
    exact = {"name": "exact", "outcome": "deviated", "value": 3, "bound": 0, "unit": "elements"}
    spoiled = {**_repeat(0, 5.0, outcome="void", void=True), "wrong_elements": 3, "checks": [exact]}
    (row,) = (
        row
        for row in tables.checks(arms({"runs": [spoiled, _repeat(1, 5.0, outcome="holds")]}))
        if row.name == "Exact results"
    )
    assert row.cells[0].state == "bad"


def test_times_are_of_repeats_that_are_not_void() -> None:
    arm = {"runs": [_repeat(0, 5.0, outcome="void", void=True), _repeat(1, 5.0, outcome="holds")]}
    assert [run.run for run in cells.counted(arms(arm)[0])] == [1]
    assert [run.run for run in cells.counted(arms({"runs": arm["runs"][:1]})[0])] == [0]


@pytest.mark.parametrize(
    ("value", "bound", "unit", "text"),
    [
        (10.0, 10.0, "ms", "10.0 ms"),
        (10.04, 10.0, "ms", "10.040 ms"),
        (10.0000004, 10.0, "ms", "10.0000004 ms"),
        (1.0204, 1.02, "ratio", "1.0204"),
        (1.01, 1.02, "ratio", "1.010"),
        (2097153, 2097152, "bytes", "2097153 bytes"),
        (5, 4, "connections", "5 connections"),
        (True, True, "bool", "yes"),
    ],
)
def test_what_is_over_its_limit_reads_so(value: float, bound: float, unit: str, text: str) -> None:
    assert tables.beyond(value, bound, unit) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0.8504, "85.04%"), (0.85000001, "85.000001%"), (0.856, "86%"), (0.97, "97%")]
)
def test_a_machine_that_is_just_too_busy_is_not_as_busy_as_its_limit(
    monkeypatch: pytest.MonkeyPatch, share: float, text: str
) -> None:
    monkeypatch.setattr(void, "cpu_busy", lambda _: share)
    monkeypatch.setattr(void, "healthy_ms", lambda _: [])
    assert void.reasons(RunData([])) == [f"the machine's CPU was {text} busy (limit 85%)"]


def test_digits_end_somewhere() -> None:
    assert over(1.0 + 2**-52, 1.0, lambda value, digits: f"{value:.{digits}f}", 0).startswith("1.0000")


@pytest.mark.parametrize(("inventory", "name"), [("lab", "lab"), ("lab:default", "lab"), ("vm:2x2", "vm")])
def test_what_a_bed_is_called(inventory: str, name: str) -> None:
    assert parse(inventory).bed == name
