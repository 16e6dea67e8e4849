"""What is shown of a campaign: key figures, and the report of all its cells."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from campaign_double import TWO, prepare

from chaos.campaign import figures
from chaos.campaign.load import load
from chaos.campaign.state import resume
from reports.reporters import campaign as report

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return prepare(tmp_path, monkeypatch)


def arm(name: str, *, healthy: float = 20.0, ratio: float | None = None, faults: int = 1, void: bool = False) -> Any:
    fault = {"iteration_ms": 50.0, "iteration_bound_ms": 41.5, "degraded_ms": 30.0, "degraded_bound_ms": 25.0}
    stock = {"iteration_ms": 900.0, "iteration_bound_ms": None, "degraded_ms": None, "degraded_bound_ms": None}
    run = {
        "healthy_ms": {"median": healthy, "p99": 30.0},
        "faults": [stock if name == "stock" else {**fault, "iteration_ms": 50.0 + n} for n in range(faults)],
        "metrics": [{"name": "failovers", "value": None if name == "stock" else 3}],
        "wrong_elements": 2 if name == "balance" else 0,
        "void": ["busy"] if void else [],
    }
    whole = {"name": name, "expect": "holds", "verdict": "holds", "as_expected": name != "balance", "runs": [run, run]}
    return {**whole, "metrics": [{"name": "healthy_ratio", "value": ratio}]}


def test_key_figures() -> None:
    stock, migrate = figures.arms({"arms": [arm("stock"), arm("migrate", ratio=1.004, faults=3)]})
    assert (stock.beyond_bound_ms, stock.degraded_ratio, stock.failovers, stock.healthy_ratio) == (None,) * 4
    assert (migrate.beyond_bound_ms, migrate.degraded_ratio, migrate.failovers) == (10.5, 1.2, 3)
    assert (migrate.healthy_ms, migrate.healthy_ratio, migrate.wrong_elements) == (20.0, 1.004, 0)
    assert figures.words([stock, migrate]) == [
        "healthy 20.00 ms", "1.004 of stock", "+10.5 ms beyond bound", "degraded 1.20 x bound", "0 wrong"]  # fmt: skip


@pytest.fixture
def reported(tmp_path: Path) -> Path:
    """A campaign of two done cells of two builds, one that failed and one that is left."""
    text = (
        TWO.replace("second", "se_cond")
        + "  - {experiment: e.yaml, name: third}\n  - {experiment: e.yaml, name: fourth}\n"
    )
    Path("c.yaml").write_text(text)
    folder = tmp_path / "shown"
    for name, arms in {
        "first": [arm("stock"), arm("migrate", ratio=1.004)],
        "se_cond": [arm("balance", ratio=0.99, void=True)],
    }.items():
        (folder / "cells" / name).mkdir(parents=True)
        (folder / "cells" / name / "summary.json").write_text(json.dumps({"arms": arms}))
    now = resume(folder, load(Path("c.yaml")))
    now.change("first", state="done", verdict="holds", directory="cells/first", build_id="b1", exit_code=0)
    now.change("se_cond", state="done", verdict="deviated", directory="cells/se_cond", build_id="b2", exit_code=1)
    now.change("third", state="failed", exit_code=3, reasons=("no <room> | here",))
    report.after_campaign(folder, quiet=True)
    return folder


def test_the_report_has_a_row_for_each_cell_and_arm(reported: Path) -> None:
    text = (reported / "report.md").read_text()
    assert text.splitlines()[0] == "## ✗ two: 2 of 4 cells are done, 1 as expected, not se\\_cond, 1 failed."
    rows = [line for line in text.splitlines() if line.startswith("| [")]
    assert rows == [
        "| [first](cells/first/report.html) | Stock NCCL | holds ✓ (expected: holds) | 20.0 ms | – | – | – | – | 0 ✓ |",
        "| [first](cells/first/report.html) | R2CC | holds ✓ (expected: holds) | 20.0 ms | 1.004 | +8.5 ms "
        "| 1.20 × | 3 | 0 ✓ |",
        "| [se\\_cond](cells/se_cond/report.html) | R2CC, balanced | holds ✗ (expected: holds) | 20.0 ms (void) "
        "| 0.990 (void) | +8.5 ms (void) | 1.20 × (void) | 3 | 4 ✗ |",
    ]
    assert "2 builds of R2CC: b1, b2" in text
    assert "- third: failed: no &lt;room&gt; \\| here" in text and "- fourth: pending" in text


def test_the_page_says_the_same_and_loads_nothing(reported: Path) -> None:
    page = (reported / "report.html").read_text()
    text = unescape(page).replace("\u00a0", " ")
    for part in (
        "2 of 4 cells are done",
        "+8.5 ms",
        "1.004",
        "1.20 ×",
        "no <room> | here",
        'href="cells/first/report.html"',
    ):
        assert part in text
    assert "<room>" not in page
    assert "default-src 'none'" in text and "<script" not in page and " style=" not in page


def test_void_cells_are_not_as_expected(reported: Path) -> None:
    value = json.loads((reported / "campaign.json").read_text())
    value["cells"][0]["verdict"] = "void"
    (reported / "campaign.json").write_text(json.dumps(value))
    assert report.build(reported).headline == "2 of 4 cells are done, 0 as expected, 1 void, not se_cond, 1 failed."
