"""`.ci/run` with stand-ins for what it calls: it passes when all of its tests ran, and at no other time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from waits import until

ROOT = Path(__file__).parents[2]
TESTS = ("lab-together", "lab-timed", "lab-alone", "test-unit", "model")
STAND_IN = r"""#!/bin/sh
for word; do case $word in */*|*=*|-*|build|net) ;; *) target=$word ;; esac; done
echo "$target" >>called
[ -z "$STUBBORN" ] || trap "" TERM
until [ "$target" != "$FAILS" ] || [ "$(cat pids 2>/dev/null | wc -l)" -ge "$HUNG" ]; do sleep 0.05; done
[ "$target" != "$FAILS" ] || exit 1
case " $HANGS " in *" $target "*) echo $$ >>pids; exec sleep 600 ;; esac
turns=0
until [ "$target" != "$BECOMES" ] || chrt --pid $$ | grep -q "$POLICY"; do
  [ $((turns += 1)) -lt 600 ] || exit 1
  sleep 0.05
done
case " $TESTS " in
  *" $target "*) [ "$target" = "$SILENT" ] || echo "= 3 passed, 1 skipped, 2 deselected in 0.10s =" ;;
esac
"""
"""Of make, of `r2cc` (by the last target that it is to make) and of scripts."""


def gate(folder: Path, **settings: Any) -> subprocess.CompletedProcess[str]:
    env = prepared(folder, **settings)
    return subprocess.run([folder / ".ci" / "run"], env=env, capture_output=True, text=True, timeout=100)


def prepared(
    folder: Path,
    *,
    fails: str = "nothing",
    silent: str = "nothing",
    becomes: tuple[str, str] = ("nothing", ""),
    most_skipped: int = 5,
) -> dict[str, str]:
    """What it calls, and its environment."""
    for name in ("bin/make", "bin/apt-get", ".venv/bin/r2cc", "scripts/lint-cpp.sh"):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(STAND_IN)
        file.chmod(0o755)
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci")
    (folder / ".ci" / "most-skipped").write_text(f"{most_skipped}\n")
    (folder / "build" / "net").mkdir(parents=True)
    (folder / "build" / "net" / "test.log").write_text("50 tests, 900 checks, 0 failed; 377 left out, which ran\n")
    env = {key: text for key, text in os.environ.items() if not key.startswith("R2CC_")}
    env |= {"PATH": f"{folder}/bin:{os.environ['PATH']}", "TESTS": " ".join(TESTS), "FAILS": fails}
    env |= {"HANGS": "nothing", "HUNG": "0", "STUBBORN": ""}
    return env | {"SILENT": silent, "BECOMES": becomes[0], "POLICY": becomes[1]}


def test_it_passes_when_all_ran(tmp_path: Path) -> None:
    done = gate(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "15 passed, 5 skipped in " in done.stdout
    called = (tmp_path / "called").read_text().split()
    compiled = ("built-tsan", "built-asan", "built", "test-tsan", "test-asan", "test-cpp")
    for target in (*TESTS, *compiled, "style-python", "lint-python"):
        assert called.count(target) == 1, target


def test_what_nobody_waits_for_is_idle(tmp_path: Path) -> None:
    assert gate(tmp_path, becomes=("lint-python", "SCHED_IDLE")).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="what is idle may not be more without root")
def test_what_the_next_part_waits_for_is_idle_no_more(tmp_path: Path) -> None:
    assert gate(tmp_path, becomes=("built-asan", "SCHED_OTHER")).returncode == 0


@pytest.mark.parametrize("silent", ["lab-timed", "model"])
def test_tests_that_did_not_run_are_a_failure(tmp_path: Path, silent: str) -> None:
    done = gate(tmp_path, silent=silent)
    assert done.returncode == 1
    assert "error: no test ran, or a part of them" in done.stderr


def test_too_many_skipped_tests_are_a_failure(tmp_path: Path) -> None:
    done = gate(tmp_path, most_skipped=4)
    assert done.returncode == 1
    assert "error: 5 tests were skipped, and .ci/most-skipped allows 4" in done.stderr


@pytest.mark.parametrize(
    ("fails", "took"),
    [("style-python", "set-up"), ("lab-together", "build"), ("model", "build"), ("lint-python", "build")],
)
def test_what_fails_ends_it_and_says_what_each_part_took(tmp_path: Path, fails: str, took: str) -> None:
    done = gate(tmp_path, fails=fails)
    assert done.returncode != 0
    assert f" s  {took}\n" in done.stderr
    assert "passed, 5 skipped" not in done.stdout


def that_hangs(folder: Path, what: str, stubborn: str = "", **settings: Any) -> dict[str, str]:
    """Its environment: one or two targets never end, and heed SIGTERM or do not."""
    (folder / "tmp").mkdir()
    made = prepared(folder, **settings) | {"HANGS": what, "STUBBORN": stubborn, "TMPDIR": str(folder / "tmp")}
    return made | {"R2CC_CI_GRACE_S": "1" if stubborn else "60"}


def nothing_is_left(folder: Path) -> None:
    pids = (folder / "pids").read_text().split()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "something runs on")
    until(lambda: not list((folder / "tmp").iterdir()), "something was left in the file system")


@pytest.mark.parametrize("stubborn", ["", "yes"])
@pytest.mark.parametrize(
    ("inner", "what"),
    [(False, "lab-together built-tsan"), (True, "lab-together built-tsan"), (True, "test-unit changed")],
)
def test_nothing_outlives_it_however_it_is_ended(tmp_path: Path, inner: bool, what: str, stubborn: str) -> None:
    """Killed is `timeout`, which a runner has started, or the script below it; a part runs, and another behind it."""
    env = that_hangs(tmp_path, what, stubborn)
    pids = tmp_path / "pids"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([tmp_path / ".ci" / "run"], env=env, **quiet) as process:  # type: ignore[call-overload]
        until(lambda: pids.is_file() and len(pids.read_text().split()) == 2)
        below = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(below[0]) if inner else process.pid, signal.SIGKILL)
    nothing_is_left(tmp_path)


@pytest.mark.parametrize("stubborn", ["", "yes"])
@pytest.mark.parametrize(("fails", "behind"), [("lab-together", "built-tsan"), ("test-unit", "changed")])
def test_what_runs_behind_ends_with_what_fails(tmp_path: Path, fails: str, behind: str, stubborn: str) -> None:
    env = that_hangs(tmp_path, behind, stubborn, fails=fails) | {"HUNG": "1"}
    assert subprocess.run([tmp_path / ".ci" / "run"], env=env, capture_output=True, timeout=100).returncode != 0
    nothing_is_left(tmp_path)
