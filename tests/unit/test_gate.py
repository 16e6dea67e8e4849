"""`.ci/run` with stand-ins for what it calls: it passes when all of its tests ran, and at no other time."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ("lab-together", "lab-timed", "lab-alone", "test-unit", "model")
STAND_IN = r"""#!/bin/sh
for word; do case $word in */*|*=*|-*|build|net) ;; *) target=$word ;; esac; done
echo "$target" >>called
[ "$target" != "$FAILS" ] || exit 1
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


def gate(
    folder: Path,
    *,
    fails: str = "nothing",
    silent: str = "nothing",
    becomes: tuple[str, str] = ("nothing", ""),
    most_skipped: int = 5,
) -> subprocess.CompletedProcess[str]:
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
    env |= {"SILENT": silent, "BECOMES": becomes[0], "POLICY": becomes[1]}
    return subprocess.run([folder / ".ci" / "run"], env=env, capture_output=True, text=True, timeout=100)


def test_it_passes_when_all_ran(tmp_path: Path) -> None:
    done = gate(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "15 passed, 5 skipped in " in done.stdout
    called = (tmp_path / "called").read_text().split()
    for target in (*TESTS, "built-tsan", "built-asan", "built", "test-tsan", "test-asan", "test-cpp", "lint-python"):
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


@pytest.mark.parametrize("fails", ["lab-together", "model", "lint-python"])
def test_what_fails_ends_it_and_says_what_each_part_took(tmp_path: Path, fails: str) -> None:
    done = gate(tmp_path, fails=fails)
    assert done.returncode != 0
    assert " s  build" in done.stderr
    assert "passed, 5 skipped" not in done.stdout
