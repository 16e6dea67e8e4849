"""Starts ranks of a GPU workload on CPUs (gloo), by whatever Python here has torch."""

from __future__ import annotations

import functools
import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

RANK = Path(__file__).parents[2] / "harness" / "workloads" / "rank.py"
CANDIDATES = (os.environ.get("R2CC_PYTHON"), sys.executable, shutil.which("python3"), "/usr/bin/python3")
REASON = "no Python here has torch (apt-get install python3-torch, or set R2CC_PYTHON)"


THERE = "from importlib.util import find_spec; raise SystemExit(find_spec('torch') is None)"


@functools.cache
def torch_python() -> str | None:
    """An interpreter that has torch. Asked in every worker that collects tests: to import it takes seconds."""
    for python in dict.fromkeys(filter(None, CANDIDATES)):
        if Path(python).exists() and subprocess.run([python, "-c", THERE], capture_output=True).returncode == 0:
            return python
    return None


MENDED = """#!{python}
import os, runpy, sys
if sys.argv[1:3] != ["-m", "torch.distributed.run"]:
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
from torch.distributed.elastic.multiprocessing import api
if api.Std.from_str("0") is None:
    api.Std.from_str = classmethod(lambda kind, text: kind(int(text)))
del sys.argv[:2]
runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)
"""
"""torch 1.13 does not know its own default for --redirects under Python 3.11."""


def mended_python(folder: Path) -> Path:
    """The same interpreter, with a torchrun that works."""
    made = folder / "python"
    made.write_text(MENDED.format(python=torch_python()))
    made.chmod(0o755)
    return made


needs_torch = pytest.mark.skipif(torch_python() is None, reason=REASON)


@dataclass(frozen=True)
class RankRun:
    """How one rank ended and what it said."""

    exit_code: int
    lines: list[dict[str, Any]]
    stderr: str

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]


def free_root() -> str:
    """ADDR:PORT that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def run_ranks(
    kind: str, ranks: int, *words: str, spec: dict[str, Any] | None = None, timeout_s: float = 100
) -> list[RankRun]:
    """All ranks of one job, until they have ended. Fails the test when they do not end in time."""
    python = torch_python()
    assert python is not None, REASON
    base = [
        python,
        str(RANK),
        kind,
        "--ranks",
        str(ranks),
        "--root",
        free_root(),
        "--spec",
        json.dumps(spec or {}),
        *words,
    ]
    started = [
        subprocess.Popen([*base, "--rank", str(rank)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in range(ranks)
    ]
    try:
        return [_ended(process, timeout_s) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


def _ended(process: subprocess.Popen[str], timeout_s: float) -> RankRun:
    out, err = process.communicate(timeout=timeout_s)
    return RankRun(process.returncode, [json.loads(line) for line in out.splitlines() if line.startswith("{")], err)
