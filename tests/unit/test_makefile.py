"""What `make` would run, in its order."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
@pytest.mark.parametrize("target", ["test-unit", "lab-together", "lab-timed", "lab-alone"])
def test_the_library_is_built_before_tests_have_their_time(target: str) -> None:
    """Each test has a limit, and the first build of a checkout takes longer."""
    argv = ["make", "--dry-run", "--no-print-directory", target]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    builds, tests = (done.stdout.find(words) for words in ("r2cc build net", "-m pytest"))
    assert -1 < builds < tests, done.stdout
