"""Imports that are killed, that fail, or that come in numbers: every run is whole and listed, or is not there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from bad_runs import LOG

from harness.errors import UsageError
from harness.files import rundir
from reports.store import prune
from reports.store.imports import About, bring_in
from reports.store.names import when_of
from reports.store.staging import PREFIX, batch
from reports.store.store import opened

MOMENT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
STOPS = """
import os, signal, sys
from pathlib import Path
import harness.files.rundir
from reports.store import staging
from reports.store.imports import About, bring_in
left = int(sys.argv[1])
def stopping(whole):
    def step(*words, **more):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(*words, **more)
    return step
run = harness.files.rundir.RunDir
for owner, name in ((Path, "mkdir"), (Path, "replace"), (harness.files.rundir, "write_whole"), (run, "write_json")):
    setattr(owner, name, stopping(getattr(owner, name)))
bring_in(Path(sys.argv[2]), [Path(each) for each in sys.argv[3:]], About("all_reduce"))
"""


def _logs(folder: Path, count: int) -> list[Path]:
    """All written in the same second."""
    folder.mkdir()
    files = [folder / f"log-{number}.txt" for number in range(count)]
    for file in files:
        file.write_text(LOG)
        os.utime(file, (MOMENT.timestamp(), MOMENT.timestamp()))
    return files


def _visible(store: Path) -> set[str]:
    return {path.name for path in store.iterdir() if not path.name.startswith(".")} if store.exists() else set()


def _listed(store: Path) -> dict[str, str]:
    with opened(store) as found:
        return {run.id: run.verdict for run in found.runs()}


def test_more_than_a_hundred_of_one_second_are_all_listed(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    made = bring_in(store, _logs(tmp_path / "logs", 120), About("all_reduce"))
    assert len({path.name for path in made}) == 120
    assert set(_listed(store).values()) == {"holds"}
    assert set(_listed(store)) == {path.name for path in made} == _visible(store)
    assert all((path / "raw").is_dir() for path in made)


def test_killed_at_any_step_nothing_is_unlisted_and_the_next_one_clears_up(tmp_path: Path) -> None:
    logs = _logs(tmp_path / "logs", 2)
    kills, step = 0, 0
    while True:
        store = tmp_path / f"runs{step}"
        command = [sys.executable, "-c", STOPS, str(step), str(store), *map(str, logs)]
        code = subprocess.run(command, timeout=60).returncode
        if code == 0:
            break
        assert code == -signal.SIGKILL
        kills, step = kills + 1, step + 3
        if store.exists():
            assert set(_listed(store)) == _visible(store)
            bring_in(store, logs, About("all_reduce"))
            assert not list(store.glob(f"{PREFIX}*"))
    assert kills > 3
    assert len(_listed(store)) == 2


def test_pruning_clears_up_too(tmp_path: Path) -> None:
    left = tmp_path / f"{PREFIX}x"
    (left / "0").mkdir(parents=True)
    prune.sweep(tmp_path)
    assert not left.exists()


def test_one_that_cannot_be_placed_takes_the_others_out_again(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give another --store"), batch(tmp_path) as made:
        for name in ("first", "second"):
            made.begin(name, MOMENT).write_text("summary.json", "{}")
        (tmp_path / "20260304T050607Z-second").write_text("a file")
    assert [path.name for path in tmp_path.iterdir()] == ["20260304T050607Z-second"]


def test_one_that_fails_in_between_leaves_nothing(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    with pytest.raises(KeyboardInterrupt), batch(store) as made:
        made.begin("x", MOMENT).write_text("summary.json", "{}")
        raise KeyboardInterrupt
    assert list(store.iterdir()) == []


@pytest.mark.parametrize("kind", [os.mkfifo, Path.mkdir])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, kind: object) -> None:
    kind(tmp_path / "log")  # type: ignore[operator]
    with pytest.raises(UsageError, match=r"cannot read .*log"):
        bring_in(tmp_path / "runs", [tmp_path / "log"], About("x"))
    assert not (tmp_path / "runs").exists()


def test_a_link_to_a_log_is_read(tmp_path: Path) -> None:
    (file,) = _logs(tmp_path / "logs", 1)
    (tmp_path / "latest").symlink_to(file)
    (made,) = bring_in(tmp_path / "runs", [tmp_path / "latest"], About("x"))
    assert (made / "raw" / "latest").read_text() == LOG


@pytest.mark.parametrize("stamp", [-5e9, 2.0**62])
def test_a_file_of_no_time_is_of_now(tmp_path: Path, stamp: float) -> None:
    (tmp_path / "x").write_text("x")
    try:
        os.utime(tmp_path / "x", (stamp, stamp))
    except (OSError, OverflowError):
        pytest.skip("this file system keeps no such time")
    assert 2020 < when_of(tmp_path / "x").year < 9999


def test_a_name_that_is_not_utf8_is_kept_and_told_in_letters(tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"\xff\x1b.txt")
    file.write_text(LOG)
    (made,) = bring_in(tmp_path / "runs", [file], About("x"))
    assert (made / "raw" / file.name).exists()
    assert _listed(tmp_path / "runs") == {made.name: "holds"}


def test_directories_of_one_second_have_numbers(tmp_path: Path) -> None:
    made = [rundir.create(tmp_path, "x", MOMENT).path.name for _ in range(150)]
    assert made[0] == "20260304T050607Z-x"
    assert made[149] == "20260304T050607Z-x-149"
