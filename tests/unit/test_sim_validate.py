"""The validation gates: what they are made of, and that they can fail."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.simulate.core import params as core_params
from chaos.simulate.validate import checking, checks
from chaos.simulate.validate import formulas as validate_formulas
from chaos.simulate.validate import lab as validate_lab
from harness.build import build_net
from harness.lab.plan import shaping
from harness.progress import silent

pytestmark = [pytest.mark.build, pytest.mark.timeout(400)]


@pytest.fixture(scope="module", autouse=True)
def _library() -> Iterator[None]:
    build_net(progress=silent)
    yield


def test_all_gates_hold_and_known_misses_are_told() -> None:
    found = checking.run_checks()
    counts = Counter(check.outcome for check in found)
    assert not [check for check in found if check.outcome == "deviated"]
    assert counts["holds"] > 100
    assert counts["unexplained"] <= checking.MOST_UNEXPLAINED
    assert all(check.note for check in found if check.outcome in ("known", "unexplained"))
    assert all(check.source and check.bound for check in found)


def test_every_row_of_the_lab_that_is_not_void_is_there() -> None:
    rows = 0
    for file in validate_lab.LAB:
        for one in json.loads(validate_lab.raw(file).read_text())["sets"]:
            void = {run["case"] for run in one["runs"] if run["schedule"] == "healthy" and run["void"]}
            rows += sum(
                run["schedule"] != "healthy" and not run["void"] and run["case"] not in void for run in one["runs"]
            )
    assert rows == sum(check.name.startswith("lab ") for check in checking.run_checks())


def test_the_buckets_are_those_of_the_lab() -> None:
    rates = {
        one["settings"]["rate_gbit"]
        for file in validate_lab.LAB
        for one in json.loads(validate_lab.raw(file).read_text())["sets"]
    }
    assert {shaping(rate, 9000).burst_bytes for rate in rates} == {validate_lab.BURST_BYTES}


def test_a_simulator_that_is_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate_formulas, "EXACT", {**core_params.EXACT, "ring_efficiency": 0.9})
    assert any(check.outcome == "deviated" for check in validate_formulas.checks())


def test_a_measurement_that_is_off_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    changed: dict[str, Any] = json.loads(validate_lab.raw(validate_lab.LAB[0]).read_text())
    run = next(run for run in changed["sets"][0]["runs"] if run["schedule"] == "chain")
    run["median_ms"] *= 1.06
    (tmp_path / validate_lab.LAB[0]).write_text(json.dumps(changed))
    monkeypatch.setattr(validate_lab, "LAB", validate_lab.LAB[:1])
    monkeypatch.setattr(validate_lab, "raw", lambda file: tmp_path / file)
    off = [check for check in validate_lab.checks() if check.outcome == "deviated"]
    assert [check.ours / check.expected < 0.95 for check in off] == [True]


def test_too_many_misses_without_a_reason_are_no_good_model() -> None:
    one = checks.near("a", 1.1, 1.0, 0.01, "", known="not explained")
    assert checking.good([one] * checking.MOST_UNEXPLAINED)
    assert not checking.good([one] * (checking.MOST_UNEXPLAINED + 1))


def test_a_known_miss_that_holds_is_one_that_holds() -> None:
    assert checks.near("a", 1.0, 1.0, 0.01, "", known="why").outcome == "holds"
    assert checks.near("a", 1.1, 1.0, 0.01, "", known="why").note == "why"
    assert checks.near("a", 1.1, 1.0, 0.01, "", known="seen; not explained").outcome == "unexplained"
    assert checks.near("a", 1.1, 1.0, 0.01, "").outcome == "deviated"
    assert checks.near("a", 1.3, 1.0, 0.01, "", known="why").outcome == "deviated"
    assert checks.at_most("a", 1.1, 1.0, "").outcome == checks.at_least("a", 0.9, 1.0, "").outcome == "deviated"
