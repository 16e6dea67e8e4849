"""The frozen formats: examples fit their schemas, agree with each other, and what is wrong is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import chaos_literal as literal
import pytest
import yaml

from chaos.analysis.summary import summarize
from chaos.experiment.file import load
from chaos.record.journal import read
from harness.errors import InputErrors
from harness.schemas import load as schema
from harness.schemas import plain, problems, validate

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
OTHERS = {"campaigns", "sim"}
SHIPPED = sorted(
    path for path in (ROOT / "experiments").rglob("*.yaml") if not OTHERS & set(path.relative_to(ROOT).parts)
)


def test_every_line_of_the_example_journal_fits() -> None:
    lines = list(read(EXAMPLES / "journal.jsonl"))
    assert len(lines) > 200
    for line in lines:
        validate("journal", line)


def test_the_example_summary_is_what_the_example_journal_comes_to() -> None:
    summary = json.loads((EXAMPLES / "summary.json").read_text())
    validate("summary", summary)
    kept = {key: summary[key] for key in ("bed", "hardware", "build_id")}
    lines = read(EXAMPLES / "journal.jsonl")
    assert plain(summarize(lines, load(EXAMPLES / "experiment.yaml"), ["stock", "migrate"], **kept)) == summary


def test_the_examples_are_the_journal_that_figures_are_tested_with() -> None:
    assert list(read(EXAMPLES / "journal.jsonl")) == literal.journal()
    assert (EXAMPLES / "experiment.yaml").read_text() == literal.EXPERIMENT


@pytest.mark.parametrize("path", [*SHIPPED, EXAMPLES / "experiment.yaml"])
def test_experiments_fit_their_schema(path: Path) -> None:
    assert problems("experiment", yaml.safe_load(path.read_text())) == []


LINE: dict[str, Any] = {"schema": 1, "t_ns": 1, "host": "h0", "arm": "stock", "run": 0}


@pytest.mark.parametrize(
    "wrong",
    [
        {"event": "log"},
        {"event": "log", "message": "x", "schema": 2},
        {"event": "log", "message": "x", "t_ns": 1.5},
        {"event": "log", "message": "x", "run": -1},
        {"event": "fault", "id": "f", "kind": "flap", "nic": "eth0", "phase": "perhaps"},
        {"event": "cpu", "busy": 1.2},
        {"event": "iteration", "rank": 0, "index": 0, "start_ns": 1, "end_ns": 2, "bytes": 4},
        {"event": "sample", "nics": {"eth0": {"tx_bytes": 1}}},
        {"event": "delivery", "rank": 0, "connection": 1, "index": 0, "start_ns": 1, "gaps_us": [-1]},
        {"event": "path", "connection": 1, "nic": "eth0", "state": "lost"},
    ],
)
def test_wrong_lines_are_refused(wrong: dict[str, Any]) -> None:
    assert problems("journal", {**LINE, **wrong})


def test_a_summary_with_an_unknown_or_a_missing_key_is_refused() -> None:
    summary = json.loads((EXAMPLES / "summary.json").read_text())
    del summary["arms"][0]["runs"][0]["wrong_elements"]
    with pytest.raises(InputErrors) as caught:
        validate("summary", {**summary, "extra": 1})
    assert len(caught.value.errors) == 2
    assert any(error.startswith("arms/0/runs/0: ") for error in caught.value.errors)


def test_an_unknown_schema_is_said_so() -> None:
    with pytest.raises(KeyError, match="no JSON Schema named 'nope'"):
        schema("nope")


RECORDED = ROOT / "tests" / "data" / "runs" / "recorded"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        *[("plan", EXAMPLES / "plan.json"), ("plan_request", EXAMPLES / "plan_request.json")],
        *[("summary", RECORDED / "summary.json"), ("environment", RECORDED / "environment.json")],
        *[("inventory", EXAMPLES / "inventory.yaml"), ("topology", EXAMPLES / "topology.yaml")],
        ("experiment", RECORDED / "experiment.yaml"),
    ],
)
def test_what_was_written_before_fits(name: str, path: Path) -> None:
    assert problems(name, yaml.safe_load(path.read_text())) == []


def test_a_journal_of_before_fits() -> None:
    for line in read(RECORDED / "journal.jsonl"):
        assert problems("journal", line) == []
