"""The ranks that nccl_schedules.py lets run by turns, on CPUs: the published schedule is an exact all-reduce."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from ports import free_root
from torch_python import needs_torch, torch_python

RANK = Path(__file__).parents[2] / "benchmarks" / "turns_rank.py"
RANKS = 3

pytestmark = [needs_torch, pytest.mark.timeout(120)]


def test_the_published_schedule_and_the_ring_come_to_the_same() -> None:
    base = [str(torch_python()), str(RANK), "--root", free_root(), "--ranks", str(RANKS)]
    started = [
        subprocess.Popen(
            [*base, "--rank", str(rank)],
            env={**os.environ, "R2CC_BENCH_Y": "0.3"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]
    try:
        for process in started:
            assert process.stdin is not None
            process.stdin.write("published 40012 2\nall_reduce 40012 1\nend\n")
            process.stdin.flush()
        said = [process.communicate(timeout=50)[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    for text in said:
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        took = [line for line in lines if line["event"] == "took"]
        assert [(line["bytes"], line["wrong_elements"]) for line in took] == [(40012, 0), (40012, 0)]
        assert lines[-1]["event"] == "end"
