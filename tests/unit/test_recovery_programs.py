"""Programs that go on after a loss by torchft and by NVIDIA's in-process restart, over gloo, where those are installed.

What they say where they are not: test_programs_missing.py.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from ports import free_port, hold
from torch_python import CANDIDATES

PROGRAMS = Path(__file__).resolve().parents[2] / "experiments" / "jobs" / "recovery"
ENDS_S = 150
LIMIT_S = 6
"""Of a collective: gloo is not aborted, so who is not told waits that long."""


def python_with(package: str) -> str:
    """An interpreter that has it. Skips the test where none does."""
    there = f"from importlib.util import find_spec; raise SystemExit(find_spec({package!r}) is None)"
    for python in dict.fromkeys(filter(None, CANDIDATES)):
        if Path(python).exists() and subprocess.run([python, "-c", there], capture_output=True).returncode == 0:
            return python
    pytest.skip(f"no Python here has {package} (pip install it beside torch, and set R2CC_PYTHON)")


def played(program: str, python: str, words: Sequence[str], env: dict[str, str]) -> list[str]:
    """What three ranks said, of which rank 1 dies. `env`: beside their number."""
    started = []
    for rank in "012":
        own = {
            "RANK": rank, "REPLICA": rank, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
        }  # fmt: skip
        argv = [python, str(PROGRAMS / program), "--cpu", "--limit-s", str(LIMIT_S), *words]
        pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(argv, env={**os.environ, **own, **env}, **pipe))  # type: ignore[call-overload]
    try:
        said = [process.communicate(timeout=ENDS_S) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    codes = [process.returncode for process in started]
    assert codes == [0, -signal.SIGABRT, 0], [err[-1000:] for _, err in said]
    return [out for out, _ in said]


@pytest.mark.timeout(ENDS_S + 30)
def test_ranks_that_are_left_are_restarted_in_their_processes() -> None:
    port = free_port()
    hold(port + 1)  # its own store's
    env = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    words = ["--steps", "6", "--mib", "1", "--leave", "1:2"]
    said = played("in_process.py", python_with("nvidia_resiliency_ext"), words, env)
    for rank in (0, 2):
        steps = re.findall(r"step (\d+) of (\d) ranks", said[rank])
        assert steps == [(str(step), "3" if step < 2 else "2") for step in range(6)]
        assert said[rank].endswith("done with 2 ranks\n")
    assert said[0] == said[2]


@pytest.mark.timeout(ENDS_S + 60)
def test_replicas_that_are_left_go_on_with_one_state() -> None:
    python, port = python_with("torchft"), free_port()
    lighthouse = [str(Path(python).parent / "torchft_lighthouse"), "--min_replicas", "2", "--bind", f"[::]:{port}"]
    lighthouse += ["--join_timeout_ms", "2000", "--heartbeat_timeout_ms", "1000"]
    quiet = subprocess.DEVNULL
    keeper = subprocess.Popen(lighthouse, stdout=quiet, stderr=quiet)
    try:
        words = ["--steps", "8", "--width", "64", "--leave", "1:4"]
        env = {"TORCHFT_LIGHTHOUSE": f"http://localhost:{port}"}
        said = played("torchft_replicas.py", python, words, env)
    finally:
        keeper.kill()
        keeper.wait()
    results = [dict(re.findall(r"step (\d+) of \d replicas, result (\w+)", out)) for out in said]
    assert results[0].keys() >= {"4", "5", "6", "7"} <= results[2].keys(), said
    for left, other in ((0, 2), (0, 1), (2, 1)):
        both = results[left].keys() & results[other].keys()
        assert [results[left][step] for step in both] == [results[other][step] for step in both]
    assert "step 7 of 2 replicas" in said[0]
    assert "step 7 of 2 replicas" in said[2]
