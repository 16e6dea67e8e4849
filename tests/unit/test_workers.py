"""Workers of a command end with it, and say nothing, whatever ends them: at work, idle, or while they begin."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from waits import LIMIT_S, until

from harness.errors import InfraError
from harness.workers import crew

ROOT = Path(__file__).parents[2]
COMMAND = """
import os, sys, time
import click
from harness.workers import crew

def work(seconds):
    os.write(1, b"at work\\n")
    time.sleep(seconds)

@click.command()
@click.argument("kind")
def share(kind):
    with crew(3, fork=kind == "fork") as pool:
        list(pool.map(work, [0, 0, 60]))

if __name__ == "__main__":
    from harness.cli import cli, main
    cli.add_command(share)
    main(["share", sys.argv[1]])
"""


def members(session: int) -> list[int]:
    """Of a session, but for its leader."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != session and os.getsid(process.pid) == session:
                found.append(process.pid)
        except ProcessLookupError:
            continue
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
@pytest.mark.parametrize("whole", [True, False], ids=["group", "parent"])
@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_a_signal_ends_all_with_one_line(tmp_path: Path, kind: str, whole: bool, number: signal.Signals) -> None:
    (tmp_path / "share.py").write_text(COMMAND)
    command = subprocess.Popen(
        [sys.executable, tmp_path / "share.py", kind],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert command.stdout is not None
    for _ in range(3):  # one works on, the others have done their part
        assert command.stdout.readline() == "at work\n"
    assert len(members(command.pid)) >= 2
    (os.killpg if whole else os.kill)(command.pid, number)
    _, said = command.communicate(timeout=LIMIT_S)
    assert (command.returncode, said) == (130, "r2cc: interrupted\n")
    until(lambda: not members(command.pid))  # Python's own, which ends when all others have


def test_a_worker_that_is_ended_alone_is_an_error_of_the_machine() -> None:
    with pytest.raises(InfraError, match="a worker process ended"), crew(1, fork=True) as pool:
        pool.submit(os.kill, pool.submit(os.getpid).result(), signal.SIGTERM).result()


def test_no_thread_of_it_outlives_the_block() -> None:
    """Python, which takes itself down then, would wake one up that ends at this moment, and print a traceback."""
    before = threading.enumerate()
    for _ in range(5):
        with crew(2, fork=True) as pool:
            assert list(pool.map(abs, [-1, -2, -3])) == [1, 2, 3]
        assert threading.enumerate() == before


def test_answers_come_back_and_begin_was_called() -> None:
    with crew(2, fork=True, begin=os.environ.update, given=({"R2CC_OF_A_WORKER": "7"},)) as pool:
        assert list(pool.map(os.getenv, ["R2CC_OF_A_WORKER"] * 4)) == ["7"] * 4
    assert "R2CC_OF_A_WORKER" not in os.environ
