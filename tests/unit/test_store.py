"""The run store: what it says of runs, under two writers, after kill -9, from older versions, and of 10,000 runs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.errors import UsageError
from reports.commands.runs import runs
from reports.store import prune, schema
from reports.store.store import INDEX, Store, Wanted, opened
from reports.store.tags import read_tags, write_tags

NOW = datetime(2026, 1, 31, tzinfo=UTC)
LIMIT_S = 60.0
WRITER = """
import sys
from pathlib import Path
from reports.store.store import opened
folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
for number in range(rounds):
    with opened(folder) as store:
        store.tag("20260101T000000Z-x", [f"{sys.argv[3]}{number}"])
        print(number, flush=True)
"""


def _summary(**changes: Any) -> dict[str, Any]:
    run = {
        "run": 0,
        "healthy_ms": {"median": 168.5, "p99": 170.0},
        "faults": [{"stall_ms": 9.5, "iteration_ms": 200.0, "iteration_bound_ms": 180.0, "detect_ms": None}],
        "metrics": [{"name": "busbw", "unit": "GBps", "size_bytes": 1024, "value": 0.5, "bound": 0.75}],
    }
    arm = {"name": "migrate", "runs": [run], "metrics": []}
    whole = {"schema": 1, "experiment": "nic_down", "verdict": "holds", "exit_code": 0, "bed": "lab", "seed": 7}
    return whole | {"hardware": {"fingerprint": "f00"}, "build_id": "b1", "arms": [arm]} | changes


def _make(store: Path, name: str, **changes: Any) -> Path:
    folder = store / name
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").write_text("")
    (folder / "summary.json").write_text(json.dumps(_summary(**changes)))
    return folder


def _ids(store: Store, **asked: Any) -> list[str]:
    return [run.id for run in store.runs(Wanted(**asked))]


def test_what_is_known_of_a_run(tmp_path: Path) -> None:
    _make(tmp_path, "20260131T120000Z-nic_down")
    with opened(tmp_path) as store:
        run = store.find("20260131T12")
    assert (run.experiment, run.verdict, run.exit_code, run.bed, run.seed) == ("nic_down", "holds", 0, "lab", 7)
    assert (run.fingerprint, run.build_id, run.arms, run.source) == ("f00", "b1", ("migrate",), "r2cc")
    assert run.made == datetime(2026, 1, 31, 12, tzinfo=UTC)
    told = {(figure.name, figure.size_bytes): (figure.value, figure.bound) for figure in run.figures}
    assert told == {
        ("healthy_ms", None): (168.5, None),
        ("stall_ms", None): (9.5, None),
        ("iteration_ms", None): (200.0, 180.0),
        ("busbw", 1024): (0.5, 0.75),
    }


def test_runs_come_change_and_go_with_their_directories(tmp_path: Path) -> None:
    first = _make(tmp_path, "20260101T000000Z-a")
    (tmp_path / "not-a-run").mkdir()
    (tmp_path / ".hidden").mkdir()
    with opened(tmp_path) as store:
        assert _ids(store) == [first.name]
        killed = tmp_path / "20260102T000000Z-b"
        killed.mkdir()
        (killed / "journal.jsonl").write_text("")
        (killed / "experiment.yaml").write_text("name: better_name\n")
        assert _ids(store) == [killed.name, first.name]
        assert (store.find(killed.name).verdict, store.find(killed.name).experiment) == ("unfinished", "better_name")
        (killed / "summary.json").write_text(json.dumps(_summary(verdict="deviated")))
        assert store.find(killed.name).verdict == "deviated"
        shutil.rmtree(first)
        assert _ids(store) == [killed.name]
        assert store.refresh() == 0


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"experiment": "nic_*"}, ["c", "a"]),
        ({"verdict": "deviated"}, ["b"]),
        ({"build_id": "b2"}, ["c"]),
        ({"fingerprint": "other"}, ["c"]),
        ({"tag": "kept"}, ["a"]),
        ({"since": datetime(2026, 1, 2, tzinfo=UTC)}, ["c", "b"]),
        ({"limit": 1}, ["c"]),
        ({"experiment": "nic_*", "build_id": "b1"}, ["a"]),
    ],
)
def test_questions(tmp_path: Path, asked: dict[str, Any], found: list[str]) -> None:
    write_tags(_make(tmp_path, "20260101T000000Z-a"), {"kept"})
    _make(tmp_path, "20260102T000000Z-b", experiment="flap", verdict="deviated")
    _make(tmp_path, "20260103T000000Z-c", build_id="b2", hardware={"fingerprint": "other"})
    with opened(tmp_path) as store:
        assert [name[-1] for name in _ids(store, **asked)] == found


def test_a_run_is_found_by_its_id_its_beginning_or_its_tag(tmp_path: Path) -> None:
    for name in ("20260101T000000Z-a", "20260101T000001Z-a"):
        _make(tmp_path, name)
    with opened(tmp_path) as store:
        store.tag("20260101T000001Z-a", ["before"])
        assert store.find("before").id == "20260101T000001Z-a"
        with pytest.raises(UsageError, match="may be any of 2 runs"):
            store.find("2026")
        with pytest.raises(UsageError, match="no run 'x'"):
            store.find("x")


def test_a_run_is_found_by_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _make(tmp_path / "runs", "20260101T000000Z-a")
    _make(tmp_path / "others", "20260102T000000Z-b")
    monkeypatch.chdir(tmp_path)
    with opened(Path("runs")) as store:
        for name in (
            "runs/20260101T000000Z-a",
            "./runs/20260101T000000Z-a/",
            str(tmp_path / "runs/20260101T000000Z-a"),
        ):
            assert store.find(name).id == "20260101T000000Z-a"
        with pytest.raises(UsageError, match="no run 'others"):
            store.find("others/20260102T000000Z-b")


def test_tags_outlive_the_index(tmp_path: Path) -> None:
    _make(tmp_path, "20260101T000000Z-a")
    with opened(tmp_path) as store:
        store.tag("2026", ["x", "y"])
        store.tag("2026", [], ["y"])
    (tmp_path / INDEX).unlink()
    with opened(tmp_path) as store:
        assert store.find("2026").tags == ("x",)


@pytest.mark.parametrize("damage", [b"this is no database, but it is long enough to be looked at" * 20, b""])
def test_a_damaged_index_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    _make(tmp_path, "20260101T000000Z-a")
    (tmp_path / INDEX).write_bytes(damage)
    with opened(tmp_path) as store:
        assert _ids(store) == ["20260101T000000Z-a"]


def test_figures_of_an_interrupted_repeat_are_marked(tmp_path: Path) -> None:
    (arm,) = _summary()["arms"]
    (repeat,) = arm["runs"]
    cut = {**repeat, "run": 1, "cut": True}
    _make(tmp_path, "20260101T000000Z-a", arms=[{**arm, "runs": [cut]}], verdict="failed", exit_code=130)
    _make(tmp_path, "20260102T000000Z-b", arms=[{**arm, "runs": [repeat, cut]}], verdict="failed", exit_code=130)
    with opened(tmp_path) as store:
        alone, beside = (store.find(run).figures for run in ("20260101", "20260102"))
    assert {figure.cut for figure in alone} == {True}
    assert {(figure.repeat, figure.cut) for figure in beside} == {(0, None)}, "a whole one is there"
    words = ["show", "20260101", "--store", str(tmp_path)]
    told = CliRunner().invoke(runs, words)
    assert "migrate run 1: healthy_ms 168.5 ms, of a part alone: it was interrupted" in told.output
    shown = json.loads(CliRunner().invoke(runs, [*words, "--json"]).output)
    assert shown["figures"][0]["cut"] is True


def test_an_older_index_is_made_anew(tmp_path: Path) -> None:
    _make(tmp_path, "20260101T000000Z-a")
    index = sqlite3.connect(tmp_path / INDEX, isolation_level=None)
    index.executescript(
        """
        CREATE TABLE runs (id TEXT PRIMARY KEY, changed_ns INTEGER NOT NULL, made TEXT);
        CREATE TABLE tags (run TEXT REFERENCES runs(id) ON DELETE CASCADE, tag TEXT NOT NULL);
        CREATE TABLE figures (run TEXT REFERENCES runs(id) ON DELETE CASCADE);
        CREATE INDEX figures_run ON figures(run);
        INSERT INTO runs VALUES ('20250101T000000Z-gone', 1, '');
        INSERT INTO tags VALUES ('20250101T000000Z-gone', 'old');
        INSERT INTO figures VALUES ('20250101T000000Z-gone');
        PRAGMA user_version = 1
        """
    )
    index.close()
    for _ in range(2):
        with opened(tmp_path) as store:
            assert [(run.experiment, run.source) for run in store.runs()] == [("nic_down", "r2cc")]


def test_an_index_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    index = sqlite3.connect(tmp_path / INDEX)
    index.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    index.close()
    before = (tmp_path / INDEX).read_bytes()
    with pytest.raises(UsageError, match="made by a later R2CC"), opened(tmp_path):
        pass
    assert (tmp_path / INDEX).read_bytes() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_that_cannot_be_written_can_be_read(tmp_path: Path) -> None:
    _make(tmp_path, "20260101T000000Z-a")
    tmp_path.chmod(0o500)
    try:
        with opened(tmp_path) as store:
            assert _ids(store) == ["20260101T000000Z-a"]
    finally:
        tmp_path.chmod(0o700)


def test_two_writers_and_one_that_is_killed(tmp_path: Path) -> None:
    _make(tmp_path, "20260101T000000Z-x")
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    doomed = subprocess.Popen([*command, "100000", "k"], stdout=subprocess.PIPE)
    writers = [subprocess.Popen([*command, "30", name], stdout=subprocess.DEVNULL) for name in "ab"]
    try:
        assert doomed.stdout is not None
        doomed.stdout.readline()
        time.sleep(0.05)
        doomed.send_signal(signal.SIGKILL)
        assert [writer.wait(LIMIT_S) for writer in writers] == [0, 0]
    finally:
        for process in (doomed, *writers):
            process.kill()
            process.wait()
        assert doomed.stdout is not None
        doomed.stdout.close()
    with opened(tmp_path) as store:
        (run,) = store.runs()
        assert set(run.tags) == set(read_tags(tmp_path / run.id))
        assert {f"{name}{number}" for name in "ab" for number in range(30)} < set(run.tags)
    check = sqlite3.connect(tmp_path / INDEX)
    assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    check.close()


def test_pruning_keeps_what_is_new_tagged_or_running(tmp_path: Path) -> None:
    names = [f"202601{day:02}T000000Z-a" for day in (10, 11, 12, 13)]
    for name in names:
        _make(tmp_path, name)
    write_tags(tmp_path / names[0], {"kept"})
    running = tmp_path / "20260131T000000Z-b"
    running.mkdir()
    (running / "journal.jsonl").write_text("")
    with opened(tmp_path) as store:
        every = store.runs()
        for keep, older, left in (
            (1, None, [names[2], names[1]]),
            (0, timedelta(days=19), [names[1]]),
            (None, timedelta(days=18), [names[2], names[1]]),
            (9, None, []),
        ):
            assert [run.id for run in prune.chosen(every, NOW, keep=keep, older_than=older)] == left
        (tmp_path / ".pruned-old").mkdir()
        prune.sweep(tmp_path)
        prune.remove(tmp_path, every[1])
        assert _ids(store) == [running.name, *reversed(names[:3])]
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".pruned")) == []


def test_the_commands(tmp_path: Path) -> None:
    _make(tmp_path, "20260101T000000Z-a")
    run = CliRunner()
    at = ["--store", str(tmp_path)]
    assert "20260101T000000Z-a" in run.invoke(runs, ["list", *at]).output
    listed = json.loads(run.invoke(runs, ["list", "--json", *at]).stdout)
    assert [each["id"] for each in listed["runs"]] == ["20260101T000000Z-a"]
    assert "busbw of 1024 bytes 0.5 GBps (bound 0.75)" in run.invoke(runs, ["show", "2026", *at]).output
    assert json.loads(run.invoke(runs, ["show", "2026", "--json", *at]).stdout)["figures"]
    assert run.invoke(runs, ["tag", "2026", "kept", *at]).output == "20260101T000000Z-a: kept\n"
    assert run.invoke(runs, ["prune", "--keep", "0", "--yes", *at]).output.startswith("0 run(s)")
    assert run.invoke(runs, ["tag", "2026", "kept", "--remove", *at]).output == "20260101T000000Z-a: no tag\n"
    assert run.invoke(runs, ["prune", "--keep", "0", *at], input="n\n").exit_code == 1
    assert (tmp_path / "20260101T000000Z-a").exists()
    assert run.invoke(runs, ["prune", "--keep", "0", "--yes", *at]).exit_code == 0
    assert not (tmp_path / "20260101T000000Z-a").exists()
    for words in (["prune", *at], ["tag", "2026", "a b", *at], ["list", "--store", str(tmp_path / "none")]):
        assert isinstance(run.invoke(runs, words).exception, UsageError)
    assert run.invoke(runs, ["list", "--since", "soon", *at]).exit_code == 2


def test_ten_thousand_runs(tmp_path: Path) -> None:
    """Read once; how long questions take then: benchmarks/store_scale.py."""
    text = json.dumps(_summary())
    for number in range(10_000):
        folder = tmp_path / f"20260101T{number // 3600 % 24:02}{number // 60 % 60:02}{number % 60:02}Z-{number}"
        folder.mkdir()
        (folder / "summary.json").write_text(text)
    with opened(tmp_path) as store:
        assert store.refresh() == 10_000
    with opened(tmp_path) as store:
        assert store.refresh() == 0, "nothing is read again"
        assert len(store.runs()) == 10_000
