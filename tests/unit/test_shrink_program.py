"""The program that goes on without lost ranks, on CPUs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ports import free_root
from torch_python import needs_torch, torch_python

PROGRAM = Path(__file__).resolve().parents[2] / "experiments" / "jobs" / "recovery" / "shrink.py"


@needs_torch
@pytest.mark.parametrize("leave", [{1: 2}, {1: 2, 3: 4}], ids=["one", "another after the first shrink"])
def test_all_that_are_left_go_on_when_one_leaves(tmp_path: Path, leave: dict[int, int]) -> None:
    """None of them waits for one that waits for it: whoever hears of a loss closes its connections."""
    address, port = free_root().split(":")
    ranks = range(2 + len(leave))
    words = [word for rank, step in leave.items() for word in ("--leave", f"{rank}:{step}")]
    started = []
    for rank in map(str, ranks):
        (tmp_path / rank).mkdir()
        argv = [str(torch_python()), str(PROGRAM), "--cpu", "--mib", "1", "--steps", "6", *words]
        env = {
            **os.environ, "RANK": rank, "WORLD_SIZE": str(len(ranks)), "MASTER_ADDR": address, "MASTER_PORT": port,
            "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
            "R2CC_OUT": str(tmp_path / rank),
        }  # fmt: skip
        started.append(subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    try:
        said = [process.communicate(timeout=100)[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert [process.returncode for process in started] == [0] * len(ranks), said
    members = list(ranks)
    for rank, step in leave.items():
        assert f"rank {rank} leaves" in said[rank]
        members.remove(rank)
        for each in members:
            assert f"goes on at step {step} with ranks {members}" in said[each], said
    assert members == [0, 2]
    assert (tmp_path / "0" / "digest").read_text() == (tmp_path / "2" / "digest").read_text()
