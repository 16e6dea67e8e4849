"""Folders of one's own: gone at the end, and, of whoever was killed, at the next one's beginning."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.files.scratch import scratch, sweep

HOLD = """
import sys, time
from pathlib import Path
from harness.files.scratch import scratch
with scratch("mine-", Path(sys.argv[1])) as folder:
    (folder / "half").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""


def _holder(parent: Path) -> tuple[subprocess.Popen[bytes], Path]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().decode().strip())


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        stream.close()


def test_it_is_gone_at_the_end(tmp_path: Path) -> None:
    with scratch("mine-", tmp_path) as folder:
        (folder / "x").write_text("x")
        assert folder.parent == tmp_path
    assert not list(tmp_path.iterdir())


def test_what_a_killed_one_left_goes_and_a_living_ones_stays(tmp_path: Path) -> None:
    dead, left = _holder(tmp_path)
    dead.send_signal(signal.SIGKILL)
    dead.wait()
    living, used = _holder(tmp_path)
    try:
        assert not left.exists()
        sweep("mine-", tmp_path)
        with scratch("mine-", tmp_path):
            assert (used / "half").read_text() == "x"
    finally:
        for process in (dead, living):
            _end(process)


def test_what_is_no_folder_of_ours_is_left_alone(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "x").write_text("x")
    (tmp_path / "mine-link").symlink_to(kept)
    (tmp_path / "mine-file").write_text("x")
    os.mkfifo(tmp_path / "mine-pipe")
    (tmp_path / "other").mkdir()
    before = sorted(tmp_path.rglob("*"))
    sweep("mine-", tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_place_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"cannot write {tmp_path / 'none'}"), scratch("mine-", tmp_path / "none"):
        pass


def test_where_there_are_no_locks_it_is_made_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(_fd: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with scratch("mine-", tmp_path) as folder, scratch("mine-", tmp_path) as other:
        assert folder.is_dir() and other.is_dir()
    assert not list(tmp_path.iterdir())


def test_many_at_once_do_not_sweep_each_other(tmp_path: Path) -> None:
    def use(_: int) -> bool:
        with scratch("mine-", tmp_path) as folder:
            (folder / "x").write_text("x")
            sweep("mine-", tmp_path)
            return (folder / "x").exists()

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(use, range(300)))
    assert not list(tmp_path.iterdir())
