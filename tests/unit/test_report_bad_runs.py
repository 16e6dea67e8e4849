"""Reports of run directories that somebody damaged: what can be shown is shown, the rest is one clear error."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bad_runs import BOMB, DEEP, VALUES, places, text
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from reports.commands.report import report
from reports.reading import rundir

sys.path.insert(0, str(Path(__file__).parents[1] / "data" / "runs"))

import synthetic_run
from synthetic_run import Options

QUICK = (Phase.explicit, Phase.reuse, Phase.generate)
"""A report takes a quarter of a second: to look for a shorter example would take minutes."""
LINE = {"schema": 1, "t_ns": 5, "host": "h0", "arm": "migrate", "run": 0, "event": "log", "message": "x"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic_run.make(tmp_path_factory.mktemp("runs") / "small", Options(iterations=8))


@pytest.fixture
def run(tmp_path: Path, whole: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def _reported(*folders: Path) -> str:
    """What is printed; Markdown, JSON, CSV, JUnit and HTML are made too. UsageError is the caller's."""
    result = CliRunner().invoke(report, [*map(str, folders), "--format", "all", "--store", "/nowhere"])
    if isinstance(result.exception, UsageError):
        raise result.exception
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "\x1b" not in result.output
    return result.output


@pytest.mark.parametrize("name", ["summary.json", "environment.json", "experiment.yaml"])
@pytest.mark.parametrize(
    "spoil",
    [
        os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero"), text(b"\xff"), text(DEEP),
        text('{"seed": ' + "9" * 400 + "}"), text('{"schema": 99}'), text(BOMB), text('{"name": "\\ud800"}'),
    ],
)  # fmt: skip
def test_neighbours_of_a_journal_are_noted(run: Path, name: str, spoil: Callable[[Path], object]) -> None:
    (run / name).unlink()
    spoil(run / name)
    _reported(run)
    assert any(name in note or "figures" in note for note in rundir.load(run).notes)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (os.mkfifo, "journal.jsonl is a named pipe, not a file"),
        (Path.mkdir, "journal.jsonl is a folder, not a file"),
        (lambda path: path.symlink_to(path.name), "journal.jsonl is a symbolic link, not a file"),
        (text(json.dumps(LINE) + "\n" + json.dumps({**LINE, "schema": 2}) + "\n"), "line 2 .* written by a newer r2cc"),
        (text(json.dumps({**LINE, "schema": "2"}) + "\n"), "line 1 of journal.jsonl says no version"),
    ],
)
def test_a_journal_that_is_none_is_one_clear_error(run: Path, spoil: Callable[[Path], object], why: str) -> None:
    (run / "journal.jsonl").unlink()
    spoil(run / "journal.jsonl")
    with pytest.raises(UsageError, match=why) as caught:
        _reported(run)
    assert caught.value.message.startswith(f"{run}: ")


def test_bad_lines_are_counted(run: Path) -> None:
    sample = '{"schema":1,"host":"h0","arm":"migrate","run":0,"t_ns":5,"event":"sample","nics":'
    bad = (
        DEEP,
        '{"a": ' + "9" * 400 + "}",
        json.dumps({**LINE, "message": "\ud800"}),
        json.dumps({**LINE, "t_ns": 1e999}),
        f"{sample}{DEEP}}}",
        sample + '{"eth0":{"tx_bytes":' + "9" * 400 + ',"rx_bytes":1}}}',
    )
    with (run / "journal.jsonl").open("a") as journal:
        journal.writelines(f"{line}\n" for line in bad)
    _reported(run)
    assert any("4 line(s) of journal.jsonl could not be read" in note for note in rundir.load(run).notes)


def test_the_others_are_reported(run: Path, whole: Path, tmp_path: Path) -> None:
    (run / "journal.jsonl").unlink()
    with pytest.raises(UsageError, match="no journal"):
        _reported(run, whole)
    assert (whole / "report.html").is_file()
    with pytest.raises(UsageError, match=r"it has no journal\.jsonl(?s:.*)gone is not a run directory"):
        _reported(run, tmp_path / "gone")


@pytest.mark.parametrize("spoil", [os.mkfifo, text("["), text('{"schema": 4}'), text('{"schema": 1, "points": 1}')])
def test_a_simulation_that_cannot_be_read(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    spoil(tmp_path / "simulation.json")
    with pytest.raises(UsageError, match=r"simulation\.json"):
        _reported(tmp_path)


def test_what_lies_in_raw_is_linked_to_and_nothing_outside(run: Path, tmp_path: Path) -> None:
    raw = run / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    raw.mkdir()
    (raw / "kept.txt").write_text("x")
    (raw / os.fsdecode(b"\xff.txt")).write_text("x")
    (raw / "out").symlink_to("/etc/hostname")
    (raw / "loop").symlink_to("loop")
    os.mkfifo(raw / "pipe")
    assert [name for name in rundir.load(run).raw_files() if name.startswith("raw/")] == ["raw/kept.txt"]
    _reported(run)
    shutil.rmtree(raw)
    raw.symlink_to("/etc")
    assert not [name for name in rundir.load(run).raw_files() if name.startswith("raw/")]


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), phases=QUICK)
@given(data=st.data())
def test_whatever_is_written_into_a_journal(data: st.DataObject, whole: Path) -> None:
    lines: list[Any] = [json.loads(line) for line in (whole / "journal.jsonl").read_text().splitlines()]
    for number in data.draw(st.lists(st.integers(0, len(lines) - 1), min_size=1, max_size=4)):
        place = data.draw(st.sampled_from(places(lines[number])))
        at = lines[number]
        if not place:
            continue
        for step in place[:-1]:
            at = at[step]
        at[place[-1]] = data.draw(VALUES)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(shutil.copytree(whole, Path(folder, "run")))
        (run / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        try:
            _reported(run)
        except UsageError as error:
            assert "journal.jsonl" in error.message


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), phases=QUICK)
@given(data=st.data(), name=st.sampled_from(["summary.json", "environment.json", "experiment.yaml"]))
def test_whatever_is_written_beside_a_journal(data: st.DataObject, name: str, whole: Path) -> None:
    from harness.config import documents

    value: Any = documents.mapping_of(whole / name) if name.endswith("yaml") else json.loads((whole / name).read_text())
    for place in data.draw(st.lists(st.sampled_from(places(value)[1:]), min_size=1, max_size=1)):
        at = value
        for step in place[:-1]:
            at = at[step]
        at[place[-1]] = data.draw(VALUES)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(shutil.copytree(whole, Path(folder, "run")))
        (run / name).write_text(json.dumps(value))
        _reported(run)


def test_a_whole_number_too_large_to_be_one_is_a_note(run: Path) -> None:
    value = json.loads((run / "summary.json").read_text())
    value["arms"][1]["runs"][0]["bytes_per_nic"]["h0"]["eth1"]["tx_bytes"] = 3e272
    (run / "summary.json").write_text(json.dumps(value))
    assert "summary.json is not used" in _reported(run)


@pytest.mark.parametrize("name", [b"\xff\xfe", b"20260204T050607Z-\x1b[31mred", b"a\nb"])
@pytest.mark.parametrize("damaged", [False, True])
def test_a_directory_of_any_name(tmp_path: Path, whole: Path, name: bytes, damaged: bool) -> None:
    run = Path(shutil.copytree(whole, tmp_path / os.fsdecode(name)))
    (run / "experiment.yaml").unlink()
    if damaged:
        (run / "journal.jsonl").unlink()
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            "from harness.cli import main; main()",
            "report",
            run,
            "--format",
            "all",
            "--out",
            tmp_path,
        ],
        capture_output=True,
        timeout=60,
    )
    assert (ran.returncode, b"\x1b" in ran.stdout + ran.stderr) == (2 if damaged else 0, False)
    assert b"internal error" not in ran.stderr
