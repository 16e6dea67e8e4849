"""The program that runs any released NCCL: what it says without one, and how its ranks meet. GPUs: by hand."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ports import free_port

PROGRAM = Path(__file__).parents[2] / "experiments/jobs/programs/any_nccl.py"


def test_a_library_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    missing = tmp_path / "libnccl.so.2"
    done = subprocess.run(
        [sys.executable, PROGRAM, "--library", missing], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"any_nccl: {missing} cannot be loaded: ")
    assert len(done.stderr.splitlines()) == 1


def test_all_ranks_get_rank_0s_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROGRAM.parent))
    spec = importlib.util.spec_from_file_location("any_nccl", PROGRAM)
    assert spec and spec.loader
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    own = [bytes([rank]) * program.ID_BYTES for rank in range(3)]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda rank: program.met(own[rank], rank, 3), range(3)))
    assert found == [own[0]] * 3
