"""The headline: plain English, and never the time of a repeat that does not count while another does."""

from __future__ import annotations

import re
from typing import Any

import pytest
import summary_parts as parts

from chaos.faults.registry import kinds
from reports.formats.view import _tiles, stall_limit_ms
from reports.words import names, sentence

Json = dict[str, Any]


def repeat(number: int, stall_ms: float | None, *, void: bool = False, kind: str = "link_down") -> Json:
    fault = {"id": "f", "kind": kind, "stall_ms": stall_ms}
    why = ["the CPU was 97% busy"] if void else []
    return {"run": number, "iterations": 10, "wrong_elements": 0, "faults": [fault], "void": why, "checks": []}


def arm(name: str, *runs: Json, expected: bool | None = True) -> Json:
    mode = {"stock": 0, "migrate": 1, "balance": 2, "allreduce": 3}.get(name, 0)
    return {"name": name, "mode": mode, "as_expected": expected, "runs": list(runs)}


def headline(verdict: str, *arms: Json, bed: str = "lab") -> str:
    return sentence.headline(parts.summary(arms, verdict=verdict, bed=bed))


STOCK = arm("stock", repeat(0, 4118.0))


@pytest.mark.parametrize("verdict", ["holds", "deviated", "void"])
def test_a_void_repeat_is_not_what_a_headline_rests_on(verdict: str) -> None:
    ours = arm("migrate", repeat(0, 900.0, void=True), repeat(1, 8.0), repeat(2, 6.0))
    said = headline(verdict, STOCK, ours)
    assert "With R2CC the link failure cost 8.0 ms; stock NCCL stalled for 4.1 s." in said
    assert "900" not in said
    assert ("1 of 4 repeats is void: the machine was too busy or too uneven to measure." in said) is (verdict == "void")


def test_a_base_that_is_void_throughout_is_not_compared_with() -> None:
    said = headline("holds", arm("stock", repeat(0, 4118.0, void=True)), arm("migrate", repeat(0, 8.0)))
    assert said == "With R2CC the link failure cost 8.0 ms."


def test_where_every_repeat_is_void_no_time_is_said() -> None:
    said = headline("void", STOCK, arm("migrate", repeat(0, 8.0, void=True), repeat(1, 9.0, void=True)))
    assert said.startswith("The times below say nothing: ")
    assert " ms" not in said and "All 30 iterations gave exact results." in said


def test_tiles_say_void_only_of_what_is_void() -> None:
    half = arm("migrate", repeat(0, 900.0, void=True), repeat(1, 8.0))
    whole = arm("stock", repeat(0, 4118.0, void=True))
    assert [(tile.value, tile.label) for tile in _tiles(parts.arms(whole, half))[:2]] == [
        ("8.0 ms", "stall with R2CC"),
        ("4.1 s", "void, stall with Stock NCCL"),
    ]
    assert stall_limit_ms(parts.summary([half])) is None


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (["migrate"], "Not as expected: R2CC."),
        (["migrate", "balance"], "Not as expected: R2CC and balanced R2CC."),
        (["stock", "migrate", "balance"], "Not as expected: stock NCCL, R2CC and balanced R2CC."),
    ],
)
def test_arms_that_did_not_do_as_expected(odd: list[str], said: str) -> None:
    arms = [arm(name, repeat(0, 8.0), expected=name not in odd) for name in ("stock", "migrate", "balance")]
    assert headline("deviated", *arms).startswith(f"{said} With R2CC ")


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_every_fault_is_a_noun(kind: str) -> None:
    """`the link down cost 8 ms` is no English."""
    said = headline("holds", STOCK, arm("migrate", repeat(0, 8.0, kind=kind)), arm("stock", repeat(0, 1.0, kind=kind)))
    assert names.fault(kind) == kinds()[kind].noun
    assert not re.search(r"\b(down|lost|removed|gone|late|stop|kill|one way)\b cost", said)


def test_one_is_no_plural() -> None:
    wrong = arm("migrate", {**repeat(0, None), "wrong_elements": 1, "faults": []})
    assert sentence.correctness(parts.arms(wrong)) == "1 element of the results was wrong."
    single = arm("migrate", {**repeat(0, None), "iterations": 1, "faults": []})
    assert sentence.correctness(parts.arms(single)) == "The one iteration gave exact results."


def test_what_another_tool_did_not_check_is_not_called_exact() -> None:
    run = {**repeat(0, None), "faults": []}
    assert (
        headline("holds", arm("stock", run), bed="imported") == "10 iterations completed; nobody checked their results."
    )
    checked = {**run, "checks": [{"name": "exact", "outcome": "holds"}]}
    assert headline("holds", arm("stock", checked), bed="imported") == "All 10 iterations gave exact results."


def test_results_that_nobody_compared_are_not_said_to_be_exact() -> None:
    run = {**repeat(0, None), "faults": [], "checked": False}
    assert headline("holds", arm("balance", run)) == "10 iterations completed; nobody checked their results."
    same = {"name": "identical", "outcome": "holds", "value": True, "bound": True, "unit": "bool"}
    ours = {**arm("balance", run), "checks": [same]}
    assert headline("holds", arm("stock", run), ours) == "20 iterations completed, with the same results as stock."


def test_a_library_that_said_nothing_is_not_praised() -> None:
    silent = arm("balance", {**repeat(0, None), "heard": False})
    assert headline("holds", STOCK, silent).startswith("R2CC's library said nothing in this run")
    assert "came through" in headline("holds", STOCK, arm("balance", repeat(0, None)))
