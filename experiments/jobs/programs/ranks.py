"""How the torch programs start: options, one process group, and settings under which a run repeats bit by bit."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts

import torch
import torch.distributed as dist
from missing import end

INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Of the same size, by bytes: a number's bits, whatever they mean."""


def options(about: str | None, steps: int) -> argparse.ArgumentParser:
    """`--steps` and `--cpu`; each program adds its own."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--cpu", action="store_true", help="gloo instead of NCCL, for a test without GPUs")
    return parser


def repeatable(seed: int = 1) -> None:
    """No kernel whose sums depend on timing, no TF32, and the same random numbers every time."""
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(seed)


def join(cpu: bool) -> torch.device:
    """One process group of all ranks, by the variables that torchrun sets, too; what this rank computes on."""
    repeatable()
    if cpu:
        dist.init_process_group("gloo")
        return torch.device("cpu")
    if not torch.cuda.is_available():
        end("needs a GPU that torch can use; --cpu runs it without one, over gloo")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    return device


def tokens(step: int, rank: int, shape: tuple[int, ...], vocabulary: int, device: torch.device) -> torch.Tensor:
    """This rank's batch of a step, drawn on the CPU: the same on every machine."""
    source = torch.Generator().manual_seed(1_000_003 * step + rank)
    return torch.randint(vocabulary, shape, generator=source).to(device)


def bits(tensors: Iterable[torch.Tensor]) -> bytes:
    """A sum over the bits of each tensor, weighed by place, as bytes. Integer sums do not depend on their order."""
    sums = []
    for each in tensors:
        flat = each.detach().contiguous().reshape(-1)
        number = flat.view(INTEGERS[flat.element_size()]).to(torch.int64)
        sums.append((number * torch.arange(1, 2 * number.numel(), 2, device=number.device)).sum())
    return repr(torch.stack(sums).tolist()).encode()
