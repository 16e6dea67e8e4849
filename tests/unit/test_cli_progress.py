"""Signs of life: none for what is quick, one line on a terminal, a few in a log."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from waits import LIMIT_S, until

from harness import progress
from harness.errors import InfraError
from harness.files.lock import exclusive
from harness.progress import Step


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_SIGN_S", 0.05)
    monkeypatch.setattr(progress, "TERMINAL_PERIOD_S", 0.02)
    monkeypatch.setattr(progress, "LOG_PERIOD_S", 0.02)


def wait_for(stream: io.StringIO, pattern: str) -> None:
    until(lambda: re.search(pattern, stream.getvalue()), f"never said: {pattern}")


def test_quick_work_says_nothing() -> None:
    stream = io.StringIO()
    with Step("compiling", stream) as step:
        step.update("1 of 2")
    assert stream.getvalue() == ""


def test_long_work_says_how_far_it_is_and_that_it_ended(hurried: None) -> None:
    stream = io.StringIO()
    with Step("compiling", stream) as step:
        step.update("1 of 2")
        wait_for(stream, r"compiling: 1 of 2 \(\d+ s\)\n")
    assert re.search(r"compiling: done \(\d+ s\)\n$", stream.getvalue())


def test_a_terminal_gets_one_line_redrawn(hurried: None) -> None:
    stream = Terminal()
    with pytest.raises(RuntimeError), Step("compiling", stream) as step:
        wait_for(stream, "compiling")
        step.update("2 of 2")
        wait_for(stream, "2 of 2")
        raise RuntimeError
    assert stream.getvalue().count("\n") == 1
    assert re.search(r"\r\033\[Kcompiling: failed \(\d+ s\)\n$", stream.getvalue())


def test_quiet_is_quiet(hurried: None) -> None:
    stream = io.StringIO()
    with Step("compiling", stream, quiet=True):
        time.sleep(0.1)
    assert stream.getvalue() == ""


def test_a_lock_is_held_by_one_and_dies_with_its_owner(tmp_path: Path, repository: Path) -> None:
    lock = tmp_path / "locks" / "x.lock"
    code = (
        "import sys, time; from pathlib import Path; from harness.files.lock import exclusive\n"
        "with exclusive(Path(sys.argv[1]), 'testing'):\n    print('held', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(lock)], cwd=repository, stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None and child.stdout.readline() == "held\n"
        with pytest.raises(InfraError, match=r"testing for over 0\.2 s"), exclusive(lock, "testing", timeout_s=0.2):
            pytest.fail("two hold the lock")
        child.kill()
        child.wait(LIMIT_S)
    with exclusive(lock, "testing", timeout_s=LIMIT_S):
        assert os.path.exists(lock)  # noqa: PTH110
