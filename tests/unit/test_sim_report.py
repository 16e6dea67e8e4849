"""Reports of simulations say what simulation.json says, and the run store knows simulations."""

from __future__ import annotations

import csv
import io
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import sim_files

from chaos.simulate.run.cell import Payload, run_cell
from chaos.simulate.run.experiment import load
from chaos.simulate.run.result import build
from harness import schemas
from harness.cli import run_cli
from harness.errors import UsageError
from harness.schemas import plain
from reports.reporters import run as render
from reports.simulation import chart, model, sentence, view, words, write
from reports.store import entries
from reports.store.folders import is_run

MEGABYTE = 1_000_000
HOSTILE = "<script>alert(1)</script>`|*"


def opened(folder: Path, value: dict[str, object] | None = None) -> model.Simulation:
    return model.load(sim_files.run_dir(folder, value or sim_files.simulation()))


def test_the_doubles_fit_the_schema() -> None:
    assert schemas.problems("simulation", sim_files.simulation()) == []
    assert schemas.problems("simulation", sim_files.serving()) == []
    assert schemas.problems("simulation", sim_files.simulation(verdict="maybe"))


@pytest.mark.build
def test_a_real_result_fits_the_schema_and_its_figures_are_over_all_traces(tmp_path: Path) -> None:
    experiment = load(sim_files.write(tmp_path))
    payload = Payload.of(experiment)
    found = plain(build(experiment, [(cell, run_cell(payload, cell)) for cell in payload.cells()], "code"))
    assert schemas.problems("simulation", found) == []
    ratios = {
        (point["at"]["faults.failed_nics"], point["arm"]): next(f for f in point["figures"] if f["name"] == "ratio")
        for point in found["points"]
    }
    assert {ratios[count, arm]["n"] for count, arm in ratios if arm != "stock"} == {6}
    assert ratios[1, "stock"]["value"] is None  # it stands still, and says so
    assert ratios[0, "balance"]["value"] == pytest.approx(1.0)
    assert ratios[1, "balance"]["value"] > ratios[1, "allreduce"]["value"] > 1
    two = ratios[2, "balance"]
    assert two["low"] <= two["p50"] <= two["high"] <= two["p99"]
    assert found["checks"][0]["outcome"] == "holds"


def test_the_answer_comes_first_in_one_sentence(tmp_path: Path) -> None:
    told = sentence.headline(opened(tmp_path))
    assert told == (
        "Over 30 days on 1,024 GPUs (128 hosts), R2CC AllReduce spends 98.9 % of the time on work that is kept, "
        "stock NCCL 93.6 %: 19,200 GPU h saved. What is assumed is not varied (axis assumed_rates)."
    )
    wrong = sim_files.simulation(checks=[{"name": "x", "value": None, "bound": "<= 1", "outcome": "deviated"}])
    assert sentence.headline(opened(tmp_path, wrong)).endswith("1 of 1 checks do not hold.")


def test_the_answer_has_the_range_over_assumed_rates(tmp_path: Path) -> None:
    value: dict[str, Any] = json.loads(json.dumps(sim_files.simulation()))
    value["axes"] = {**value["axes"], sentence.ASSUMED: ["a third", "three times", "as shipped"]}
    points = []
    for label, factor in (("a third", 1.01), ("three times", 0.9), ("as shipped", 1.0)):
        for point in json.loads(json.dumps(value["points"])):
            point["at"][sentence.ASSUMED] = label
            for figure in point["figures"]:
                figure["value"] = None if figure["value"] is None else figure["value"] * factor
            points.append(point)
    told = sentence.headline(opened(tmp_path, {**value, "points": points}))
    assert told == (
        "Over 30 days on 1,024 GPUs (128 hosts), R2CC AllReduce spends 98.9 % (89.0 % to 99.923 %) of the time on "
        "work that is kept, stock NCCL 93.6 % (84.2 % to 94.5 %): 19,200 GPU h (17,280 GPU h to 19,392 GPU h) saved. "
        "In brackets: assumed rates and repair times from a third to three times."
    )


def test_papers_are_beside_ours_with_the_difference(tmp_path: Path) -> None:
    equal = {**sim_files.simulation()["references"][0], "relation": "equals", "ours": 0.011, "difference": 0.1}
    row = view.papers(opened(tmp_path, sim_files.simulation(references=[equal]))).rows[0]
    assert [cell.text for cell in row[2:5]] == ["1.0 %", "1.1 %", "+10.0 %"]
    assert [cell.note for cell in row[2:4]] == ["published", "modelled"]
    inside = view.papers(opened(tmp_path)).rows[0]
    assert (inside[2].text, inside[4].text) == ("at most 1.0 %", "within")


def test_coverage_says_who_survives_what(tmp_path: Path) -> None:
    table = view.coverage(opened(tmp_path))
    assert table.head[3:] == (words.arm("stock"), words.arm("allreduce"))
    assert [(cell.text, cell.state) for cell in table.rows[0][3:]] == [("restart", "bad"), ("survived", "good")]
    assert [cell.text for cell in table.rows[1][3:]] == ["10.0 %", "100.0 %"]


def test_every_parameter_is_there_with_its_basis_and_source(tmp_path: Path) -> None:
    assert [cell.text for cell in view.params(opened(tmp_path)).rows[0]] == [
        "stall_ms",
        "9 ms",
        "measured",
        "docs/results",
    ]


@pytest.mark.parametrize("value", [sim_files.simulation(), sim_files.serving()], ids=["job", "serving"])
def test_the_page_is_one_small_file_without_scripts(tmp_path: Path, value: dict[str, object]) -> None:
    page = write.write(opened(tmp_path, value), "html", tmp_path).read_text()
    assert len(page.encode()) < MEGABYTE
    for forbidden in ("<script", '<link rel="stylesheet"', "http://", "https://", "style="):
        assert forbidden not in page
    assert page.count("<svg") >= 2
    assert "modelled" in page


def test_hostile_words_stay_text(tmp_path: Path) -> None:
    value = sim_files.simulation(title=HOSTILE, name="x", streams={HOSTILE: 1})
    for kind in ("html", "md"):
        assert "<script" not in write.render(opened(tmp_path, value), kind)


def test_csv_has_every_figure_as_it_is(tmp_path: Path) -> None:
    sim = opened(tmp_path)
    rows = list(csv.DictReader(io.StringIO(write.render(sim, "csv"))))
    assert len(rows) == sum(len(point["figures"]) for point in sim.value["points"])
    first = sim.value["points"][0]["figures"][0]
    assert rows[0]["topology.hosts"] == "16"
    assert float(rows[0]["value"]) == first["value"]


def test_report_makes_it_again_and_after_run_knows_a_simulation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = sim_files.run_dir(tmp_path / "20260101T000000Z-thirty_days", sim_files.simulation())
    render.after_run(folder, quiet=False)
    assert {"report.html", "report.md", "figures.csv"} <= {path.name for path in folder.iterdir()}
    assert "Holds (modelled)" in capsys.readouterr().err
    assert run_cli(["report", str(folder), "--format", "md"]) == 0
    assert capsys.readouterr().out.startswith("## ✓ Holds (modelled)")
    assert run_cli(["report", str(folder), "--format", "junit"]) == 2
    assert run_cli(["report", str(folder), "--json"]) == 0
    capsys.readouterr()


def test_what_does_not_fit_its_schema_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not fit"):
        opened(tmp_path, {**sim_files.simulation(), "points": 3})
    (tmp_path / "simulation.json").write_text("{")
    with pytest.raises(UsageError, match="cannot read"):
        model.load(tmp_path)


def test_the_store_lists_shows_and_compares_simulations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = sim_files.simulation()
    second = json.loads(json.dumps(first).replace("0123456789abcdef", "fedcba9876543210"))
    second["points"][5]["figures"][0]["value"] -= 0.2
    sim_files.run_dir(tmp_path / "20260101T000000Z-thirty_days", first)
    sim_files.run_dir(tmp_path / "mine", second)
    assert run_cli(["runs", "list", "--store", str(tmp_path), "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert {run["id"]: run["bed"] for run in runs} == {
        "20260101T000000Z-thirty_days": "simulation",
        "mine": "simulation",
    }
    assert run_cli(["runs", "show", "mine", "--store", str(tmp_path)]) == 0
    assert "goodput{hosts=16}" in capsys.readouterr().out
    assert run_cli(["compare", "2026", "mine", "--store", str(tmp_path), "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["comparisons"]
    assert found["verdict"] == "worse"
    worse = [(row["arm"], row["name"]) for row in found["rows"] if row["outcome"] == "worse"]
    assert worse == [("allreduce", "effective_training_time{hosts=16}")]


def test_a_sweep_that_is_not_finished_is_listed_as_such(tmp_path: Path) -> None:
    folder = sim_files.run_dir(tmp_path / "half", sim_files.simulation())
    (folder / "simulation.json").unlink()
    assert not is_run(folder)
    (folder / "sweep.json").write_text('{"schema": 1, "code": "0123"}')
    found = entries.read(folder)
    assert (found.verdict, found.experiment, found.build_id) == ("unfinished", "thirty_days", "0123")
    assert found.arms == ("stock", "balance", "allreduce")


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.9945, "share", "99.45 %"), (0.5, "share", "50.0 %"), (0.0004, "share", "0.040 %"), (None, "x", "–"),
        (1.0586, "x", "1.059 ×"), (263.4, "x", "263.4 ×"), (5284.8, "us", "5.28 ms"), (90000.0, "ms", "90 s"),
        (4080.0, "s", "68 min"), (96206.4, "GPU h", "96,206 GPU h"), (0.0, "", "0"), (2**30, "B", "1.07 GB"),
    ],
)  # fmt: skip
def test_values_are_shown_as_people_read_them(value: float | None, unit: str, shown: str) -> None:
    assert words.value(value, unit) == shown


def test_names_at_the_ends_of_lines_do_not_lie_over_each_other() -> None:
    series = [
        chart.Series(arm, [chart.Mark(1, 1.0), chart.Mark(2, 1.0 + n / 1000)]) for n, arm in enumerate(chart.STYLES)
    ]
    drawn = chart.lines(series, chart.Axis("x"), chart.Axis("y", "x"), ident="i", title="t")
    places = sorted(float(part.split('y="')[1].split('"')[0]) for part in drawn.split("<text") if 'class="name' in part)
    assert len(places) == len(chart.STYLES)
    assert all(after - before >= chart.APART - 0.2 for before, after in itertools.pairwise(places))
