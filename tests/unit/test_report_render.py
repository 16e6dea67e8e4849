"""Whole reports of synthetic runs: what they say is what the summary says, whatever the run directory looks like."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.errors import UsageError
from harness.schemas import plain
from reports.commands.report import report
from reports.formats import html, junit, markdown, terminal, view, write
from reports.reading import rundir
from reports.reading.trace import NicId
from reports.reporters import run as render
from reports.words import cells, sentence, tables

sys.path.insert(0, str(Path(__file__).parents[1] / "data" / "runs"))

import synthetic_run
from synthetic_run import Options

RECORDED = Path(__file__).parents[1] / "data" / "runs" / "recorded"
HOSTILE = "<script>alert(1)</script> |`\x1b[2J"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that ended well, in a directory whose name has a space."""
    return synthetic_run.make(tmp_path_factory.mktemp("runs") / "nic down")


def shown(run: rundir.RunDir) -> str:
    """The page's text without markup, white space folded."""
    page = re.sub(r"<style>.*?</style>", "", html.render(run), flags=re.S)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())


def figure(run: rundir.RunDir, arm: str, key: str) -> Any:
    entry = next(a for a in run.summary.arms if a.name == arm)
    return getattr(entry.runs[0].faults[0], key)


def test_the_recomputed_summary_is_the_one_that_chaos_wrote(whole: Path) -> None:
    run = rundir.load(whole)
    assert plain(run.summary) == json.loads((whole / "summary.json").read_text())
    assert run.notes == []


def test_a_recorded_run_of_the_lab(tmp_path: Path) -> None:
    """A real journal, made while the machine was busy: exactness is judged, times are void, every section is there."""
    recorded = tmp_path / "recorded"
    shutil.copytree(RECORDED, recorded)
    run = rundir.load(recorded)
    assert run.notes == []
    assert plain(run.summary) == json.loads((recorded / "summary.json").read_text())
    traces = view.shown_traces(run)
    assert [f.id for f in view.figures(run, traces, view.bytes_tables(run, traces))] == [
        *["bandwidth", "iterations", "waits", "failover", "heat", "nic-bytes"]
    ]
    text = shown(run)
    for arm in ("stock", "migrate"):
        assert view.ms(figure(run, arm, "stall_ms")) in text
    assert "All 24 iterations gave exact results" in text
    assert re.search(r"\+0\.0 ms h1 fault link_down on eth1: injected", text)
    assert run.faulted() == [NicId("h1", "eth1")]


def test_the_page_shows_the_summary_s_figures(whole: Path) -> None:
    run = rundir.load(whole)
    text = shown(run)
    for arm in ("stock", "migrate"):
        for key in ("stall_ms", "iteration_ms", "after_ms", "return_ms"):
            assert view.ms(figure(run, arm, key)) in text, (arm, key)
    assert figure(run, "stock", "stall_ms") > 4000
    assert figure(run, "migrate", "stall_ms") < 10
    assert run.summary.build_id in text


def test_the_verdict_comes_first_and_is_a_plain_sentence(whole: Path) -> None:
    run = rundir.load(whole)
    stall = view.ms(figure(run, "migrate", "stall_ms"))
    wanted = f"With R2CC the link failure cost {stall}; stock NCCL stalled for 4.1 s."
    page = html.render(run)
    assert wanted in unescape(page).replace("\u00a0", " ")
    assert page.index("<h1") < page.index("<table")
    assert markdown.render(run).splitlines()[0].endswith(wanted)


def test_the_journal_is_the_truth(whole: Path, tmp_path: Path) -> None:
    """A summary that was touched up changes nothing: only where the run was made is taken from it."""
    copy = synthetic_run.make(tmp_path / "copy")
    forged = json.loads((copy / "summary.json").read_text())
    forged["arms"][1]["runs"][0]["faults"][0]["stall_ms"] = 0.001
    forged["verdict"] = "deviated"
    (copy / "summary.json").write_text(json.dumps(forged))
    run = rundir.load(copy)
    assert figure(run, "migrate", "stall_ms") == figure(rundir.load(whole), "migrate", "stall_ms")
    assert run.summary.verdict == "holds"


def test_the_page_is_one_small_file_that_loads_nothing(whole: Path) -> None:
    page = html.render(rundir.load(whole))
    assert len(page.encode()) < 1_000_000
    assert "default-src 'none'" in unescape(page)
    assert not re.search(r"""(src|href|url|action|srcset)\s*[=(]\s*["']?(https?:)?//""", page)
    assert "<script" not in page and " style=" not in page and "@import" not in page


def test_links_lead_to_files_that_exist(whole: Path, tmp_path: Path) -> None:
    for target in (whole, tmp_path / "else where"):
        path = write.write(rundir.load(whole), "html", target)
        links = [unescape(link) for link in re.findall(r'<li><a href="([^"]*)"', path.read_text())]
        assert len(links) >= 5
        from urllib.parse import unquote

        assert all((path.parent / unquote(link)).is_file() for link in links)


def test_deviated_names_the_arm(tmp_path: Path) -> None:
    run = rundir.load(synthetic_run.make(tmp_path, Options(stall_ms=45.0)))
    assert run.summary.verdict == "deviated"
    assert sentence.headline(run.summary).startswith("Not as expected: R2CC. With R2CC the link failure cost 4")
    text = shown(run)
    assert "✗ Deviated" in text and "not as expected" in text


def test_void_is_said_wherever_a_time_stands(tmp_path: Path) -> None:
    run = rundir.load(synthetic_run.make(tmp_path, Options(cpu_busy=0.97)))
    assert run.summary.verdict == "void"
    text = shown(run)
    assert "Void The times below say nothing" in text and "All 80 iterations gave exact results" in text
    assert "97% busy" in text
    rows = {row.name: row for row in tables.side_by_side(run.summary.arms)}
    assert {cell.state for cell in rows["Stall"].cells} == {"void"}
    assert {cell.state for cell in rows["Wrong elements"].cells} == {"good"}, "exactness is never void"
    assert "(void)" in markdown.render(run)


def test_wrong_elements_are_not_hidden(tmp_path: Path) -> None:
    path = synthetic_run.make(tmp_path)
    journal = path / "journal.jsonl"
    spoiled, count = re.subn('"wrong_elements":0}', '"wrong_elements":3}', journal.read_text(), count=1)
    assert count == 1
    journal.write_text(spoiled)
    run = rundir.load(path)
    assert run.summary.verdict == "deviated"
    assert "3 ✗" in markdown.render(run)


def test_half_a_journal_renders_and_says_so(tmp_path: Path) -> None:
    run = rundir.load(synthetic_run.make(tmp_path, Options(abort_at=11)))
    assert run.summary.verdict == "failed"
    text = shown(run)
    for said in (
        "summary.json is missing",
        "could not be read",
        "Arm migrate, run 0 did not end",
        "could not be carried out",
    ):
        assert said in text
    assert "With R2CC the link failure cost" not in text


def test_a_journal_that_ends_between_two_arms_does_not_hold(tmp_path: Path) -> None:
    """Every run in it is whole, so only the missing summary tells that something is missing."""
    path = synthetic_run.make(tmp_path)
    lines = [x for x in (path / "journal.jsonl").read_text().splitlines() if json.loads(x)["arm"] == "stock"]
    (path / "journal.jsonl").write_text("\n".join(lines) + "\n")
    (path / "summary.json").unlink()
    run = rundir.load(path)
    assert run.summary.verdict == "failed"
    assert "the journal ends before the experiment did" in shown(run)


@pytest.mark.parametrize("kept", [0, 1, 7, 40, 400])
def test_any_beginning_of_a_journal_renders(tmp_path: Path, whole: Path, kept: int) -> None:
    with (whole / "journal.jsonl").open() as journal:
        lines = [next(journal) for _ in range(kept)]
    (tmp_path / "journal.jsonl").write_text("".join(lines) + '{"schema":1,')
    run = rundir.load(tmp_path)
    assert run.notes
    assert "<h1" in html.render(run)
    assert markdown.render(run)
    terminal.show(run, io.StringIO())


@pytest.mark.parametrize("name", ["summary.json", "environment.json", "experiment.yaml"])
@pytest.mark.parametrize("text", ["", "[1, 2]", "{not json: [", "7", "\x00"])
def test_damaged_neighbours_of_the_journal_are_noted(tmp_path: Path, name: str, text: str) -> None:
    path = synthetic_run.make(tmp_path, Options(iterations=10))
    (path / name).write_text(text)
    run = rundir.load(path)
    assert run.notes
    assert "<h1" in html.render(run)


@pytest.mark.parametrize("name", ["summary.json", "experiment.yaml"])
def test_neighbours_of_the_wrong_form_are_noted(tmp_path: Path, name: str) -> None:
    path = synthetic_run.make(tmp_path, Options(iterations=10))
    (path / name).write_text('{"arms": 7}')
    run = rundir.load(path)
    assert run.notes
    assert "<h1" in html.render(run)


def test_lines_of_unknown_or_broken_kinds_are_counted_not_fatal(tmp_path: Path) -> None:
    path = synthetic_run.make(tmp_path, Options(iterations=10))
    with (path / "journal.jsonl").open("a") as journal:
        base = {"schema": 1, "host": "h0", "arm": "migrate", "run": 0, "t_ns": 1}
        for extra in ({"event": "from_the_future"}, {"event": "sample", "nics": {"eth0": {}}}, {"event": "cpu"}):
            journal.write(json.dumps({**base, **extra}) + "\n")
        journal.write("[]\n\xff\n")
    run = rundir.load(path)
    assert any("2 line(s) of journal.jsonl lack a field" in note for note in run.notes)
    assert any("2 line(s) of journal.jsonl could not be read" in note for note in run.notes)
    assert "<h1" in html.render(run)


def test_hostile_names_are_text_everywhere(tmp_path: Path) -> None:
    run = rundir.load(synthetic_run.make(tmp_path, Options(hostile=HOSTILE, iterations=12)))
    page = html.render(run)
    assert "<script" not in page and "&lt;script&gt;alert(1)" in page
    assert "<script" not in markdown.render(run) and "|`" not in markdown.render(run).replace("`", "", 4)
    out = io.StringIO()
    terminal.show(run, out)
    assert "\x1b" not in out.getvalue()


def test_a_run_without_a_fault_has_nothing_to_compare(tmp_path: Path) -> None:
    run = rundir.load(synthetic_run.make(tmp_path, Options(fault=False, iterations=12)))
    text = shown(run)
    assert "✓ Holds All 24 iterations gave exact results." in text
    assert "where the fault was" not in text and "step by step" not in text


def test_repeats_show_the_worst_and_say_how_many(tmp_path: Path) -> None:
    run = rundir.load(synthetic_run.make(tmp_path, Options(repeats=2, iterations=20)))
    assert "Stall, worst of 2" in shown(run) and "run 0 of 0 to 1" in shown(run)
    assert [trace.arm for trace in view.shown_traces(run)] == ["stock", "migrate"]


def _cut_short(path: Path, *, killed: bool = False, wrong: int = 0) -> None:
    """The last run of the journal does not end."""
    lines = [json.loads(line) for line in (path / "journal.jsonl").read_text().splitlines()]
    (*_, end) = (line for line in lines if line["event"] == "run_end")
    (*_, last) = (line for line in lines if line["event"] == "iteration")
    end |= {"outcome": "interrupted", "reason": "interrupted"}
    last["wrong_elements"] += wrong
    if killed:
        lines = lines[: lines.index(end)]
    (path / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _row(rows: Sequence[cells.Row], name: str) -> list[cells.Cell]:
    return next(row for row in rows if row.name.startswith(name)).cells


@pytest.mark.parametrize(
    ("repeats", "told", "note"),
    [(2, "3 runs were complete", ", and is left out of the tables."), (1, "1 run was", ". The tables show what there")],
)
def test_of_a_run_that_was_interrupted_no_figure_is_shown_where_there_is_another(
    tmp_path: Path, repeats: int, told: str, note: str
) -> None:
    path = synthetic_run.make(tmp_path, Options(repeats=repeats, iterations=20))
    _cut_short(path)
    summary = json.loads((path / "summary.json").read_text())
    summary |= {"verdict": "failed", "exit_code": 130, "reasons": ["interrupted; everything was rolled back"]}
    (path / "summary.json").write_text(json.dumps(summary))
    run = rundir.load(path)
    text, page = io.StringIO(), view.build(run)
    terminal.show(run, text)
    assert f"interrupted, so it says nothing about R2CC. {told}" in text.getvalue()
    (only,) = page.notes
    assert only.startswith(
        f"Arm migrate, run {repeats - 1} did not end: it was interrupted after 20 iteration(s){note}"
    )
    assert page.remarks == ["interrupted; everything was rolled back", f"migrate, run {repeats - 1}: interrupted"]
    assert run.summary.exit_code == 130 and len(run.summary.arms[1].runs) == repeats, "the record has it all"
    rows = csv.DictReader(io.StringIO(write.render(run, "csv")))
    assert {row["cut"] for row in rows if (row["arm"], row["run"]) == ("migrate", "0")} == {
        "" if repeats > 1 else "true"
    }
    done = _row(page.side_by_side, "Iterations completed")
    assert [cell.text for cell in done] == [str(20 * repeats), str(20 * max(1, repeats - 1))]
    assert all(cell.text.endswith(" ms") or cell.text.endswith(" s") for cell in _row(page.side_by_side, "Stall"))


def test_a_run_whose_controller_was_killed_keeps_its_tables_and_is_told_of_once(tmp_path: Path) -> None:
    path = synthetic_run.make(tmp_path, Options(iterations=20))
    _cut_short(path, killed=True)
    page = view.build(rundir.load(path))
    told = "Arm migrate, run 0 did not end: the journal stops after 20 iteration(s). The tables show what there is."
    assert page.notes == [told]
    assert _row(page.side_by_side, "Iterations completed")[1].text == "20"
    assert _row(page.side_by_side, "Healthy iteration")[1].text.endswith(" ms")


@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize("killed", [True, False])
def test_wrong_elements_of_a_run_that_was_cut_short_count(tmp_path: Path, repeats: int, killed: bool) -> None:
    path = synthetic_run.make(tmp_path, Options(repeats=repeats, iterations=20))
    _cut_short(path, killed=killed, wrong=3)
    page = view.build(rundir.load(path))
    assert [cell.plain() for cell in _row(page.side_by_side, "Wrong elements")] == ["0 ✓", "3 ✗"]
    assert _row(page.checks, "Exact")[1].state == "bad"
    assert ("3", "bad") in [(tile.value, tile.kind) for tile in page.tiles]


def test_no_journal_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a run directory"):
        rundir.load(tmp_path)


def test_after_run_writes_both_files_and_keeps_stdout_clean(
    whole: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    render.after_run(whole, quiet=False)
    said = capsys.readouterr()
    assert said.out == ""
    assert "Holds" in said.err and "report.html" in said.err
    assert (whole / "report.html").is_file() and (whole / "report.md").is_file()
    assert not list(whole.glob(".*.tmp"))
    monkeypatch.setattr("harness.progress.show", lambda *_: pytest.fail("progress of something quiet"))
    render.after_run(whole, quiet=True)
    assert capsys.readouterr() == ("", "")


def test_command_formats_and_places(whole: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    assert json.loads(runner.invoke(report, [str(whole), "--json"]).stdout)["verdict"] == "holds"
    store = ["--store", str(whole.parent)]
    assert json.loads(runner.invoke(report, [whole.name, "--json", *store]).stdout)["verdict"] == "holds"
    assert runner.invoke(report, [str(whole), "--format", "md"]).stdout.startswith("## ✓ Holds")
    done = runner.invoke(report, [str(whole), "--format", "all", "--out", str(tmp_path / "a b"), "--quiet"])
    assert (done.exit_code, done.output) == (0, "")
    assert {p.name for p in (tmp_path / "a b").iterdir()} == {
        "report.html", "report.md", "report.json", "figures.csv", "junit.xml",
    }  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(runner.invoke(report, [str(whole), "--format", "csv"]).stdout)))
    assert {row["name"] for row in rows} >= {"healthy_ms", "stall_ms"}
    assert all(float(row["value"]) >= 0 for row in rows)


def test_junit_fails_what_was_not_expected(whole: Path) -> None:
    run = rundir.load(whole)
    suites = ET.fromstring(junit.render(run))
    assert {suite.get("name"): suite.get("failures") for suite in suites} == {
        f"{run.name}.{name}": "0" for name in run.arm_names()
    }
    arms = run.summary.arms
    checks = arms[-1].runs[0].checks
    checks[0] = replace(checks[0], outcome="deviated")
    arms[-1] = replace(arms[-1], expect="holds", as_expected=False, verdict="deviated")
    suite = ET.fromstring(junit.render(run))[-1]
    assert (suite.get("failures"), suite.get("errors")) == ("2", "0")
    arms[-1] = replace(arms[-1], as_expected=None, verdict="void")
    assert ET.fromstring(junit.render(run))[-1].get("errors") == "1"


def test_several_directories_get_folders_of_their_own(whole: Path, tmp_path: Path) -> None:
    other = synthetic_run.make(tmp_path / "other", Options(iterations=10))
    done = CliRunner().invoke(report, [str(whole), str(other), "--format", "md", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*.md")) == [
        "nic down/report.md",
        "other/report.md",
    ]


@pytest.mark.parametrize("formats", ["", "pdf", "html,pdf"])
def test_unknown_formats_are_usage_errors(whole: Path, formats: str) -> None:
    done = CliRunner().invoke(report, [str(whole), "--format", formats])
    assert done.exit_code == 2 and "choose from" in done.output
