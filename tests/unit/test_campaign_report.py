"""What is shown of a campaign: key figures, and the report of all its cells."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path

import pytest
from campaign_double import TWO, prepare

from chaos.analysis.model import Arm, FaultFigures, Healthy, Metric, Run, Summary
from chaos.campaign import figures
from chaos.campaign.load import load
from chaos.campaign.state import DONE, CellState, resume
from harness.errors import UsageError
from harness.facts.environment import Hardware
from harness.schemas import dumped
from reports.reporters import campaign as report

pytestmark = pytest.mark.timeout(100)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return prepare(tmp_path, monkeypatch)


def arm(name: str, *, healthy: float = 20.0, ratio: float | None = None, faults: int = 1, void: bool = False) -> Arm:
    def fault(number: int) -> FaultFigures:
        ours = name != "stock"
        return FaultFigures(
            id=f"f{number}", kind="link_down", host="h1", nic="eth0", at_iteration=1, hit=True, detect_ms=None,
            stall_ms=None, iteration_ms=50.0 + number if ours else 900.0, iteration_bound_ms=41.5 if ours else None,
            degraded_ms=30.0 if ours else None, degraded_bound_ms=25.0 if ours else None, after_ms=None, return_ms=None,
        )  # fmt: skip

    def run(number: int) -> Run:
        return Run(
            run=number, completed=True, iterations=9, wrong_elements=2 if name == "balance" else 0,
            healthy_ms=Healthy(healthy, 30.0), bytes_per_nic={}, faults=[fault(each) for each in range(faults)],
            metrics=[Metric("failovers", "connections", None, None if name == "stock" else 3, None)],
            void=["busy"] if void else [], errors=[], checks=[], verdict="holds",
        )  # fmt: skip

    shown = [Metric("healthy_ratio", "ratio", None, ratio, None)]
    return Arm(name, 0, "holds", "holds", name != "balance", [run(0), run(1)], shown, [])


def test_key_figures() -> None:
    stock, migrate = map(figures.of_arm, [arm("stock"), arm("migrate", ratio=1.004, faults=3)])
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
        whole = Summary("holds", 0, "e", "lab", Hardware("f", "cpu", 2, 1), None, 1, [], arms)
        (folder / "cells" / name / "summary.json").write_text(dumped(whole))
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


@pytest.mark.parametrize("text", ["[]", '{"schema": 1}', '{"schema": 1, "verdict": 3e272}', "{"])
def test_a_cell_whose_summary_is_none_is_one_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "cells" / "a").mkdir(parents=True)
    (tmp_path / "cells" / "a" / "summary.json").write_text(text)
    cell = CellState("a", "a", "", DONE, "holds", 0, 0, 1.0, "cells/a", None, ())
    with pytest.raises(UsageError, match=r"cells/a: .*summary") as caught:
        figures.of_cell(tmp_path, cell)
    assert caught.value.hint == "remove that folder: the cell is run again"
