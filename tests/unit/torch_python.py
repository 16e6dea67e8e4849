"""Starts ranks of a GPU workload on CPUs (gloo), by whatever Python here has torch."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import pytest
from ports import free_root

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


def run_ranks(
    kind: str, ranks: int, *words: str, spec: dict[str, Any] | None = None, timeout_s: float = 100
) -> list[RankRun]:
    """All ranks of one job, until they have ended. Fails the test when they do not end in time."""
    base = [str(RANK), kind, "--ranks", str(ranks), "--root", free_root(), "--spec", json.dumps(spec or {}), *words]
    with ExitStack() as stack:
        files = [stack.enter_context(TemporaryFile("w+")) for _ in range(2 * ranks)]
        codes = _nursery().run([[*base, "--rank", str(rank)] for rank in range(ranks)], files, timeout_s)
        texts = [_all_of(file) for file in files]
    return [
        RankRun(code, [json.loads(line) for line in out.splitlines() if line.startswith("{")], err)
        for code, out, err in zip(codes, texts[::2], texts[1::2], strict=True)
    ]


def _all_of(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


class Nursery:
    """A process that has torch and forks ranks (torch_nursery.py): one for all tests of this process."""

    def __init__(self) -> None:
        python = torch_python()
        assert python is not None, REASON
        self._asks, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = str(Path(__file__).with_name("torch_nursery.py"))
        with theirs:
            words = [python, program, str(theirs.fileno())]
            self._process = subprocess.Popen(words, pass_fds=[theirs.fileno()], start_new_session=True)
        atexit.register(self.close)

    def run(self, ranks: list[list[str]], files: Sequence[IO[str]], timeout_s: float) -> list[int]:
        """Exit codes, when all have ended. `files`: stdout and stderr of each rank in turn."""
        job = {"ranks": ranks, "env": dict(os.environ), "cwd": str(Path.cwd())}
        self._asks.settimeout(timeout_s)
        try:
            socket.send_fds(self._asks, [json.dumps(job).encode()], [file.fileno() for file in files])
            codes: list[int] = json.loads(self._asks.recv(1 << 16))
        except BaseException:
            self.close()
            raise
        return codes

    def close(self) -> None:
        """Whatever still runs of its ranks ends with it."""
        _nursery.cache_clear()
        atexit.unregister(self.close)
        self._asks.close()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@functools.cache
def _nursery() -> Nursery:
    return Nursery()
