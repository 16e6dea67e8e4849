"""The program that goes on without lost ranks, on CPUs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ports import free_root
from torch_python import needs_torch, torch_python

PROGRAM = Path(__file__).resolve().parents[2] / "experiments" / "jobs" / "recovery" / "shrink.py"


@needs_torch
def test_all_that_are_left_go_on_when_one_leaves(tmp_path: Path) -> None:
    """None of them waits for one that waits for it: whoever hears of a loss closes its connections."""
    address, port = free_root().split(":")
    started = []
    for rank in ("0", "1", "2"):
        (tmp_path / rank).mkdir()
        argv = [str(torch_python()), str(PROGRAM), "--cpu", "--mib", "1", "--steps", "5", "--leave", "1:2"]
        env = {
            **os.environ, "RANK": rank, "WORLD_SIZE": "3", "MASTER_ADDR": address, "MASTER_PORT": port,
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
    assert [process.returncode for process in started] == [0, 0, 0], said
    assert "rank 1 leaves" in said[1]
    assert ["goes on at step 2 with ranks [0, 2]" in said[rank] for rank in (0, 2)] == [True, True], said
    assert (tmp_path / "0" / "digest").read_text() == (tmp_path / "2" / "digest").read_text()
