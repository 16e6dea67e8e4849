"""The journal: readable up to the last whole line, whatever happened to the process that wrote it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from waits import until

from chaos.record.journal import OUTSIDE, Journal, read
from harness.errors import InputErrors
from harness.schemas import problems

WRITER = """
import sys
from pathlib import Path
from chaos.record.journal import Journal
journal = Journal(Path(sys.argv[1]))
journal.enter("migrate", 0)
number = 0
while True:
    journal.write("log", message="x" * 300, number=number)
    number += 1
"""


def test_lines_carry_the_common_schema(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.write("log", message="before any arm")
        journal.enter("stock", 2)
        journal.merge("h1", {"t_ns": 5, "event": "cpu", "busy": 0.5})
    first, second = read(path)
    assert (first["arm"], first["run"], first["host"]) == (OUTSIDE, 0, "controller")
    assert second == {"schema": 1, "host": "h1", "arm": "stock", "run": 2, "t_ns": 5, "event": "cpu", "busy": 0.5}
    assert [problems("journal", line) for line in (first, second)] == [[], []]


def test_kill_9_leaves_a_readable_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    env = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], env=env)
    try:
        until(lambda: path.exists() and path.stat().st_size >= 200_000)
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    numbers = [line["number"] for line in read(path)]
    assert len(numbers) > 100
    assert numbers == list(range(len(numbers)))


def test_a_last_line_cut_short_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"event":"log"}\n{"event":"lo')
    assert list(read(path)) == [{"event": "log"}]


@pytest.mark.parametrize("damage", ["{broken\n", "[1]\n"])
def test_damage_elsewhere_is_an_error_with_its_line(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"event":"log"}\n' + damage + '{"event":"log"}\n')
    with pytest.raises(InputErrors, match=r"journal\.jsonl:2: not"):
        list(read(path))


def test_nothing_that_is_not_json_gets_in(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.jsonl") as journal, pytest.raises(ValueError, match="Out of range"):
        journal.write("log", message="x", value=float("nan"))
    assert not (tmp_path / "journal.jsonl").read_text()


def test_times_are_monotonic(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    with Journal(path) as journal:
        for _ in range(3):
            journal.write("log", message="")
    times = [json.loads(line)["t_ns"] for line in path.read_text().splitlines()]
    assert before <= times[0] <= times[1] <= times[2] <= time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def test_whoever_watches_hears_each_line_once_it_is_written(tmp_path: Path) -> None:
    path, heard = tmp_path / "journal.jsonl", []
    with Journal(path) as journal:
        journal.told = lambda line: heard.append((line, list(read(path))[-1]))
        journal.write("log", message="one")
        journal.merge("h1", {"t_ns": 5, "event": "cpu", "busy": 0.5})
    assert [line["event"] for line, _ in heard] == ["log", "cpu"] and all(line == kept for line, kept in heard)
