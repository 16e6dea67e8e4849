"""The sampler of GPUs, with a stand-in for NVML (tests/data/nvml), and the chart of what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.testbed.gpubench import GpuBench
from chaos.testbed.hostbench import unbuilt
from chaos.testbed.launch import samplers
from harness.schemas import problems
from harness.workloads import gpu_sampler

ROOT = Path(__file__).resolve().parents[2]
NVML = ROOT / "tests" / "data" / "nvml"


def command(*words: str, nvml: bool = True) -> list[str]:
    """Without NVML: a Python that has nothing but its own library."""
    bare = [] if nvml else ["-IS"]
    return [sys.executable, *bare, str(Path(gpu_sampler.__file__)), *words]


def environment(mode: str = "", **more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(NVML), "NVML_DOUBLE": mode, **more}


def said(*words: str, nvml: bool = True, mode: str = "", **more: str) -> list[dict[str, Any]]:
    """For a quarter of a second, at 50 ms."""
    options = ("--interval-ms", "50", "--seconds", "0.25", *words)
    done = subprocess.run(
        command(*options, nvml=nvml), env=environment(mode, **more), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    for line in lines:
        assert problems("journal", {"schema": 1, "host": "h0", "arm": "stock", "run": 0, **line}) == []
    return lines


def test_each_gpu_each_interval() -> None:
    lines = said()
    counted = [line["nvlink_tx_bytes"] for line in lines if line["gpu"] == 0]
    times = [line["t_ns"] for line in lines]
    assert times == sorted(times)
    assert len(counted) > 1 and counted == sorted(counted)
    first, other = lines[:2]
    del first["t_ns"], first["nvlink_tx_bytes"], first["nvlink_rx_bytes"], first["pcie_tx_bytes"]
    assert first == {
        "event": "gpu", "gpu": 0, "busy": 1.0, "memory_busy": 0.03, "used_bytes": 1 << 30, "sm_mhz": 1980,
        "memory_mhz": 2619, "sm": 0.125,
    }  # fmt: skip
    assert (other["gpu"], other["memory_busy"]) == (1, 0.4)


def test_gpus_that_measure_less() -> None:
    (keys,) = {tuple(line) for line in said(mode="old")}
    assert keys == ("t_ns", "event", "gpu", "busy", "memory_busy", "used_bytes", "sm_mhz", "memory_mhz")


def test_they_are_counted_as_cuda_counts_them() -> None:
    assert {line["used_bytes"] for line in said("--gpus", "0", CUDA_VISIBLE_DEVICES="1")} == {2 << 30}
    assert {line["used_bytes"] for line in said("--gpus", "1", CUDA_VISIBLE_DEVICES="GPU-1,GPU-0")} == {1 << 30}


@pytest.mark.parametrize(
    ("mode", "nvml", "why"),
    [("", False, "this Python has no pynvml: pip install nvidia-ml-py"), ("driver", True, "version mismatch")],
)
def test_without_nvml_it_says_so_once(mode: str, nvml: bool, why: str) -> None:
    (line,) = said(mode=mode, nvml=nvml)
    assert line["event"] == "log"
    assert line["message"].startswith("the load of GPUs is not measured: ")
    assert why in line["message"]


def test_a_gpu_that_is_lost_ends_only_its_own_lines() -> None:
    lines = said(mode="lost")
    (lost,) = [place for place, line in enumerate(lines) if line["event"] == "log"]
    assert "GPU is lost" in lines[lost]["message"]
    after = [line["gpu"] for line in lines[lost + 1 :]]
    assert set(after) <= {0}


@pytest.mark.parametrize("how", ["stdin", "term"])
def test_it_ends_when_it_is_told_to(how: str) -> None:
    process = subprocess.Popen(command(), env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None and process.stdin is not None
        assert json.loads(process.stdout.readline())["event"] == "gpu"
        if how == "stdin":
            process.stdin.close()
        else:
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_hosts_of_the_lab_watch_the_gpus_of_their_ranks() -> None:
    nics = {"h0": ["eth0"], "h1": ["eth0"], "h2": ["eth0"]}
    bench = GpuBench(unbuilt(), "python3", Path("libnccl.so.2"), 4)
    started = {each.name: each.argv for each in samplers(nics, bench, each=2) if each.name.startswith("gpu-")}
    assert {name: argv[-1] for name, argv in started.items()} == {
        "gpu-sampler-h0": "0,1",
        "gpu-sampler-h1": "2,3",
        "gpu-sampler-h2": "0,1",
    }
    assert started["gpu-sampler-h0"][0] == sys.executable
    assert Path(started["gpu-sampler-h0"][1]).is_file()
    assert [each.name for each in samplers(nics, unbuilt())] == ["sampler-h0", "sampler-h1", "sampler-h2"]
