"""Commands that were started ahead of a strike wait for it, and leave nothing when there is none."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.faults.steps import Command
from chaos.run.actors import Actors
from harness.errors import CommandError
from harness.hosts import LocalHost

PROGRAM = """#!/bin/sh
echo $$ >> "$0.begun"
while read -r line; do
  case "$line" in fail*) echo "$line" >&2; exit 2;; sleep*) exec sleep 60;; esac
  echo "$line" >> "$0.read"
done
"""


class Bed:
    """One host, and a program that works through its input as `tc -batch -` does."""

    def __init__(self, folder: Path) -> None:
        self.actors = Actors(None, {"h0": LocalHost("h0")}, lambda rank: pytest.fail("no rank runs"))
        self.program = folder / "tc"
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)

    def step(self, line: str, limit_s: float = 5.0) -> Command:
        return Command("h0", ("tc", "-batch", "-"), f"{line}\n", limit_s)

    def lines(self, name: str, count: int = 0) -> list[str]:
        """Waits for so many."""
        file, deadline = Path(f"{self.program}.{name}"), time.monotonic() + 10
        while True:
            found = file.read_text().split() if file.exists() else []
            if len(found) >= count:
                return found
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def open_files(self) -> int:
        return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bed]:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    made = Bed(tmp_path)
    yield made
    made.actors.close()


def gone(pid: str) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_what_is_prepared_waits_for_the_strike(bed: Bed) -> None:
    step = bed.step("change")
    for _ in range(3):
        bed.actors.prepare([step])
    begun = bed.lines("begun", 1)
    assert bed.lines("read") == []
    (result,) = bed.actors.take([step])
    assert (result.argv, result.exit_code, bed.lines("read")) == (step.argv, 0, ["change"])
    bed.actors.take([step])  # the next outage was not prepared
    assert (len(begun), len(bed.lines("begun")), bed.lines("read")) == (1, 2, ["change", "change"])
    assert all(gone(pid) for pid in bed.lines("begun"))


@pytest.mark.parametrize(
    ("argv", "input", "waiting"),
    [
        (("ip", "-batch", "-"), "link set dev s0 down\n", (("ip", "-batch", "-"), "link set dev s0 down\n")),
        (("ip", "link", "set", "dev", "s0", "down"), "", (("ip", "-batch", "-"), "link set dev s0 down\n")),
        (("tc", "qdisc", "del", "dev", "s0", "root"), "", (("tc", "-batch", "-"), "qdisc del dev s0 root\n")),
        (
            ("nft", "add", "chain", "{ type x ; }", ";"),
            "",
            (("nft", "-f", "/proc/self/fd/0"), "add chain { type x ; } ;\n"),
        ),
        (("ip", "link", "set", "dev", "two words", "down"), "", None),
        (("ip", "link", "set", "dev", "a#b", "down"), "", None),
        (("ip", "-j", "link", "show"), "", None),
        (("ip",), "", None),
        (("sh", "-c", "exit"), "", None),
        (("tee", "file"), "line\n", None),
    ],
)
def test_what_can_wait_is_known(argv: tuple[str, ...], input: str, waiting: object) -> None:
    assert Command("h0", argv, input).waiting() == waiting


def test_what_would_act_at_once_is_not_started_ahead(bed: Bed) -> None:
    bed.actors.prepare([Command("h0", ("tc", "-j", "qdisc")), Command("h0", ("sh", str(bed.program)), "line\n")])
    time.sleep(0.1)
    assert bed.lines("begun") == []


def test_a_failure_is_told_as_ever(bed: Bed) -> None:
    step = bed.step("fail-17")
    bed.actors.prepare([step])
    (result,) = bed.actors.take([step])
    assert (result.exit_code, result.stderr) == (2, "fail-17")


def test_what_hangs_is_ended_at_its_limit(bed: Bed) -> None:
    step = bed.step("sleep", 0.2)
    bed.actors.prepare([step])
    with pytest.raises(CommandError, match="still runs"):
        bed.actors.take([step])
    assert gone(bed.lines("begun", 1)[0])


def test_what_ended_before_the_strike_is_started_again(bed: Bed) -> None:
    step = bed.step("change")
    bed.actors.prepare([step])
    (pid,) = bed.lines("begun", 1)
    os.kill(int(pid), 9)
    while Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z":
        time.sleep(0.01)
    assert [result.exit_code for result in bed.actors.take([step])] == [0]
    assert bed.lines("read") == ["change"]


def test_without_a_strike_nothing_is_done_and_nothing_is_left(bed: Bed) -> None:
    open_files = bed.open_files()
    bed.actors.prepare([bed.step("one"), bed.step("two")])
    begun = bed.lines("begun", 2)
    bed.actors.close()
    assert all(gone(pid) for pid in begun)
    assert (bed.lines("read"), bed.open_files()) == ([], open_files)
