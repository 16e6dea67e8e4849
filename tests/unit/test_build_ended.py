"""A build that is ended from outside leaves no compiler behind, however it is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from waits import LIMIT_S, until

from harness.build.make import follow
from harness.errors import BuildError
from harness.hosts import LocalHost
from harness.progress import silent

pytestmark = pytest.mark.build

ROOT = Path(__file__).parents[2]
SLOW = """\
net:
\t@sh -c 'trap "" TERM INT; echo "$$PPID $$$$" >"$(PIDS).new"; mv "$(PIDS).new" "$(PIDS)"; sleep 100; true'
"""
"""A compiler behind a driver: the driver is the one that make knows, and neither ends when it is asked."""
BUILD = """
import sys
import click
from pathlib import Path
from harness.build.make import follow
from harness.cli import cli, main
from harness.progress import silent
def slow():
    folder = Path(sys.argv[1])
    command = ["make", "-f", str(folder / "Makefile"), f"PIDS={folder / 'pids'}", "net"]
    follow(command, "net", folder / "build.log", env={}, far=str, progress=silent, verbose=False)
cli.add_command(click.Command("slow", callback=slow))
main(["slow"])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Makefile").write_text(SLOW)
    return tmp_path


def appeared(path: Path) -> list[int]:
    until(path.exists)
    return [int(word) for word in path.read_text().split()]


def group_of(pid: int) -> list[int]:
    """All of its session, but the dead ones."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, group = path.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(group) == pid and state not in "ZX":
            found.append(int(path.parent.name))
    return found


def gone(group: int) -> None:
    """They were killed: all that is left is the kernel's work."""
    until(lambda: not group_of(group), f"some of group {group} still run")


def ended(pids: Path) -> None:
    """Those that wrote their numbers there."""
    for pid in appeared(pids):
        with suppress(ProcessLookupError):
            gone(os.getpgid(pid))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL], ids=lambda n: n.name)
def test_a_build_that_is_ended(folder: Path, number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", BUILD, str(folder)], cwd=ROOT, stderr=subprocess.PIPE) as build:
        try:
            compiler = appeared(folder / "pids")[-1]
            group = os.getpgid(compiler)
            assert len(group_of(group)) >= 3, "make, a driver, a compiler"
            os.kill(build.pid, number)
            _, said = build.communicate(timeout=LIMIT_S)
        finally:
            build.kill()
    if number is not signal.SIGKILL:
        assert (build.returncode, said) == (130, b"r2cc: interrupted\n")
    gone(group)


def test_a_build_that_takes_too_long(folder: Path) -> None:
    command = ["make", "-f", str(folder / "Makefile"), f"PIDS={folder / 'pids'}", "net"]
    with pytest.raises(BuildError, match="still ran after 8 s"):
        follow(
            command, "net", folder / "build.log", env={}, far=str, progress=silent, verbose=False, limit_s=8.0
        )  # fmt: skip
    ended(folder / "pids")


def test_a_command_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with pytest.raises(Exception, match="was killed"):
        LocalHost().run(["sh", "-c", f"sleep 100 & echo $! >'{pids}'; wait"], timeout_s=8.0)
    ended(pids)


def test_a_build_that_ends_by_itself_leaves_nothing_and_has_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("good:\n\t@echo fine\nbad:\n\t@cat; ps -o pgid= $$$$ >pgid; exit 7\n")
    for target in ("good", "bad"):
        try:
            follow(
                ["make", "-C", str(tmp_path), target], target, tmp_path / "log", env={}, far=str, progress=silent,
                verbose=False,
            )  # fmt: skip
        except BuildError as error:
            assert target == "bad" and "exit code 2" in error.message
    gone(int((tmp_path / "pgid").read_text()))
