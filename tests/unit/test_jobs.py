"""The jobs of experiments/jobs, on CPUs: two ranks leave digests, the same ones every time."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from ports import free_root
from torch_python import needs_torch, torch_python

from chaos.experiment.file import load
from harness.workloads.kinds.command import Command

JOBS = Path(__file__).resolve().parents[2] / "experiments" / "jobs"
SMALL = ("--layers", "2", "--hidden", "64")
ON_CPUS = {
    "all_reduce": ("torch", ("--mib", "1")),
    "fsdp2": ("torch.distributed.fsdp", SMALL),
    "accelerate_gpt2": ("accelerate, transformers", SMALL),
    "tp_generate": ("transformers", (*SMALL, "--prompt", "8", "--new", "4")),
    "jax_psum": ("jax", ("--mib", "1")),
    "jax_sharded": ("jax", SMALL),
}
"""What each imports, and sizes for a test. DeepSpeed compiles for minutes where there is no GPU; Megatron needs one."""
STEPS = 3


def workload_of(file: Path) -> Command:
    workload = load(file).workload
    assert isinstance(workload, Command)
    return workload


def digests(program: str, words: tuple[str, ...], folder: Path) -> list[str]:
    """Of each of two ranks, which must print a line for every step that its experiment's pattern finds."""
    address, port = free_root().split(":")
    shared = {
        "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": address, "MASTER_PORT": port,
        "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
    }  # fmt: skip
    python = torch_python()
    assert python is not None
    started = []
    for rank in ("0", "1"):
        out = folder / rank
        out.mkdir(parents=True)
        with (out / "log").open("wb") as log:
            argv = [python, str(JOBS / "programs" / f"{program}.py"), "--cpu", "--steps", str(STEPS), *words]
            env = {**os.environ, **shared, "RANK": rank, "R2CC_OUT": str(out)}
            started.append(subprocess.Popen(argv, env=env, stdout=log, stderr=log))
    try:
        codes = [process.wait(timeout=100) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    logs = [(folder / rank / "log").read_text(errors="replace") for rank in ("0", "1")]
    assert codes == [0, 0], logs
    pattern = workload_of(JOBS / f"{program}.yaml").progress.step
    assert pattern is not None
    assert [len(re.findall(pattern, text, re.MULTILINE)) for text in logs] == [STEPS, STEPS], logs
    return [(folder / rank / "digest").read_text() for rank in ("0", "1")]


@pytest.mark.parametrize("name", [*ON_CPUS, "zero2", "megatron"])
def test_each_names_a_program_that_is_there(name: str) -> None:
    program = {"megatron": "train_megatron"}.get(name, name)
    assert (JOBS / "programs" / f"{program}.py").is_file()
    assert workload_of(JOBS / f"{name}.yaml").argv[1] == f"experiments/jobs/programs/{program}.py"


@needs_torch
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "program", [pytest.param(name, marks=[] if name == "all_reduce" else pytest.mark.slow) for name in ON_CPUS]
)
def test_the_same_digests_every_time(program: str, tmp_path: Path) -> None:
    needs, words = ON_CPUS[program]
    python = torch_python()
    if subprocess.run([str(python), "-c", f"import {needs}"], capture_output=True, timeout=100).returncode:
        pytest.skip(f"{python} cannot import {needs}")
    first = digests(program, words, tmp_path / "first")
    assert digests(program, words, tmp_path / "second") == first
