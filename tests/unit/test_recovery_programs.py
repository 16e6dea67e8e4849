"""The programs that go on without a host (docs/howto/no-path-left.md), where what they need is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parents[2] / "experiments/jobs/recovery").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_what_is_missing_is_one_line(program: Path) -> None:
    code = "import runpy, sys; sys.modules['torch'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code, program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "needs torch" in done.stderr
    assert done.stderr.rstrip().endswith("this Python has no torch")
    assert len(done.stderr.splitlines()) == 1
