"""The `restart` arm: a job that stands still is ended and goes on from where it was, on the NICs that work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from argparse import Namespace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from ports import free_port, free_root
from torch_python import RANK, needs_torch, torch_python

from harness.workloads.restart import AFTER, Supervisor, agreement, working_nics

COUNT = 300
SPEC = '{"bytes": 4096, "ops": ["all_reduce"]}'
COMMON = ["--ranks", "2", "--iterations", str(COUNT), "--warmup", "1", "--spec", SPEC]


def test_the_nics_that_work_are_those_with_a_carrier(tmp_path: Path) -> None:
    for name, carrier in {"eth0": "1", "eth1": "0", "mgmt0": "1", "eth3": "1"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "carrier").write_text(carrier + "\n")
    (tmp_path / "eth2").mkdir()  # down: its carrier cannot be read
    assert working_nics("eth", tmp_path) == ["eth0", "eth3"]


def test_all_use_the_nics_that_work_everywhere_and_begin_with_what_somebody_lacks() -> None:
    told = [{"done": 4, "nics": ["eth0", "eth1", "eth2"]}, {"done": 3, "nics": ["eth0", "eth2", "eth3"]}]
    assert agreement(told, "/f") == {"nics": ["eth0", "eth2"], "first": 4, "folder": "/f"}


def test_an_iteration_that_was_cut_short_began_when_it_first_began(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(AFTER, "1")
    before = signal.getsignal(signal.SIGTERM)
    supervisor = Supervisor(Namespace(rank=0, ranks=2, root="127.0.0.1:1", warmup=0, spec={}), [])
    signal.signal(signal.SIGTERM, before)

    def say(event: str, **fields: int | str) -> None:
        supervisor._pass_on(json.dumps({"event": event, "t_ns": 1, **fields}).encode())

    for index in (0, 1):
        say("progress", index=index, start_ns=1000 * index)
    say("iteration", index=0, start_ns=0, end_ns=900)
    say("error", message="ended by us")
    say("bench_start", ranks=2)
    for index in (0, 1):  # the second attempt goes on from a checkpoint before iteration 0
        say("progress", index=index, start_ns=50_000 + index)
        say("iteration", index=index, start_ns=50_000 + index, end_ns=60_000)
    supervisor._pass_on(b"no JSON")
    said = capfd.readouterr().out.splitlines()
    lines = [json.loads(text) for text in said[:-1]]
    assert [(line["event"], line.get("index"), line.get("start_ns"), line.get("end_ns")) for line in lines] == [
        ("progress", 0, 0, None),
        ("progress", 1, 1000, None),
        ("iteration", 0, 0, 900),
        ("log", None, None, None),
        ("iteration", 1, 1000, 60_000),
    ]
    assert said[-1] == "no JSON"


def started(rank: int, root: str, after_s: float) -> subprocess.Popen[str]:
    argv = [str(torch_python()), str(RANK), "collectives", *COMMON, "--rank", str(rank), "--root", root]
    return subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, AFTER: str(after_s)}
    )


def worker_of(supervisor: int) -> int:
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    return int(children[0])


@needs_torch
def test_a_job_that_stands_still_is_started_again_and_goes_on() -> None:
    root = free_root()
    both = [started(rank, root, 3.0) for rank in range(2)]
    lines: list[list[dict[str, Any]]] = [[], []]

    def read(rank: int) -> None:
        stream = both[rank].stdout
        assert stream is not None
        for text in stream:
            if text.startswith("{"):
                lines[rank].append(json.loads(text))

    readers = [threading.Thread(target=read, args=(rank,)) for rank in range(2)]
    try:
        for reader in readers:
            reader.start()
        stopped = stop_after(3, lines[1], both[1].pid)
        for reader in readers:
            reader.join(100)
        assert [process.wait(30) for process in both] == [0, 0], [process.stderr.read() for process in both]  # type: ignore[union-attr]
    finally:
        for process in both:
            process.terminate()
            process.wait(10)
            for stream in filter(None, (process.stdout, process.stderr)):
                stream.close()
    for said in lines:
        iterations = [line for line in said if line["event"] == "iteration"]
        assert [line["index"] for line in iterations] == list(range(-1, COUNT))
        assert not any(line["wrong_elements"] for line in iterations)
        ends = [line["end_ns"] for line in iterations]
        assert max(after - before for before, after in pairwise(ends)) > 3e9, "it stood still, and then went on"
        assert min(end for end in ends if end > stopped + 1_000_000_000) > stopped + 3_000_000_000
        assert [line["event"] for line in said].count("bench_start") == 1
        assert sum("attempt 1" in line.get("message", "") for line in said) == 1


def stop_after(index: int, lines: list[dict[str, Any]], supervisor: int) -> int:
    """Stops that supervisor's rank for good once it has finished the iteration; when that was."""
    deadline = time.monotonic() + 60
    while not any(line["event"] == "iteration" and line["index"] >= index for line in list(lines)):
        assert time.monotonic() < deadline, lines
        time.sleep(0.001)
    os.kill(worker_of(supervisor), signal.SIGSTOP)
    return time.monotonic_ns()


@pytest.mark.parametrize("junk", [b"hello\n", b"[]\n", b'{"done": "x"}\n', b""])
@needs_torch
def test_strangers_are_turned_away(junk: bytes) -> None:
    import socket

    from harness.workloads import restart

    place = ("127.0.0.1", free_port())
    answer: list[Any] = []
    mine = {"done": 1, "nics": ["eth0"]}
    gather = threading.Thread(target=lambda: answer.append(restart._gather(place, mine, 2, "/f", 60)))
    gather.start()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(place, timeout=1) as stranger:
                stranger.sendall(junk)
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    assert restart._ask(place, mine, 60)["first"] == 2
    gather.join(60)
    assert answer[0]["nics"] == ["eth0"]
