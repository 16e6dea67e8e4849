"""A small decoder-only transformer to be trained, and what tells two trainings apart. No dropout, no fused kernels."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from harness.workloads.job import Job

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA's libraries start

Settings = Mapping[str, int]
WORDS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
ODD = (-7046029254386353131, -4658895280553007687)
"""Splitmix64's, as 64 bits with a sign."""


class Block(nn.Module):
    """Attention to what came before, then two dense layers; both on top of what comes in."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_dense = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.wide, self.narrow = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`x`: (batch, sequence, hidden); `mask`: (sequence, sequence), 0 or minus infinity."""
        batch, sequence, hidden = x.shape
        shape = (batch, sequence, self.heads, hidden // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(self.before_attention(x)).chunk(3, dim=-1))
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(hidden // self.heads) + mask, dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, sequence, hidden))
        return x + self.narrow(nn.functional.gelu(self.wide(self.before_dense(x))))


class Gpt(nn.Module):
    """Tokens (batch, sequence) to logits (batch, sequence, vocabulary)."""

    def __init__(self, *, layers: int, hidden: int, heads: int, sequence: int, vocabulary: int) -> None:
        super().__init__()
        if hidden % heads:
            raise ValueError(f"hidden {hidden} is no multiple of {heads} heads")
        self.tokens, self.places = nn.Embedding(vocabulary, hidden), nn.Embedding(sequence, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.last = nn.LayerNorm(hidden)
        self.logits = nn.Linear(hidden, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        sequence = tokens.shape[1]
        mask = torch.full((sequence, sequence), float("-inf"), device=tokens.device).triu(1)
        x = self.tokens(tokens) + self.places(torch.arange(sequence, device=tokens.device))
        for block in self.blocks:
            x = block(x, mask)
        return self.logits(self.last(x))


def loss_of(logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Cross entropy of the tokens that should have come."""
    return nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), wanted.reshape(-1))


def deterministic() -> None:
    """The same bits every time: algorithms that add up in one order, no shortened mantissas. Others raise."""
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False


def settings(spec: Mapping[str, Any], usual: Settings) -> dict[str, int]:
    """What is asked for, else the usual; harness/workloads/kinds has looked at it."""
    return {name: spec.get(name, value) for name, value in usual.items()}


def corruption(job: Job) -> tuple[int, int] | None:
    """(rank, iteration) of the self-test. Raises ValueError."""
    if not job.given.corrupt:
        return None
    rank, colon, index = job.given.corrupt.partition(":")
    try:
        if colon and 0 <= int(rank) < job.ranks:
            return int(rank), int(index)
    except ValueError:
        pass
    raise ValueError(f"--corrupt {job.given.corrupt}: not RANK:ITERATION with one of {job.ranks} ranks")


def flip(parameter: torch.Tensor) -> None:
    """Changes one bit."""
    flat = parameter.data.view(-1)
    flat.view(WORDS[flat.element_size()])[0] ^= 1


def tokens_of(seed: int, rank: int, index: int, shape: tuple[int, ...], vocabulary: int) -> torch.Tensor:
    """A step's, from these numbers alone, the same on every machine; each follows from the one before."""
    draw = torch.Generator().manual_seed(((seed * 1_000_003 + index) * 1_009 + rank) % (1 << 62))
    first = torch.randint(0, vocabulary, (*shape[:-1], 1), generator=draw)
    return (first + torch.randint(1, 4, shape, generator=draw).cumsum(-1)) % vocabulary


def digest(tensors: Iterable[torch.Tensor]) -> str:
    """64 bits that tell whether any bit of any tensor differs: all words, each times an odd number of its place."""
    total = 0
    for number, tensor in enumerate(tensors):
        flat = tensor.detach().contiguous().view(-1)
        words = flat.view(WORDS[flat.element_size()]).to(torch.int64)
        weights = (torch.arange(len(words), device=words.device) + (number << 40)) * ODD[0]
        weights = (weights ^ (weights >> 29)) * ODD[1] | 1
        total += int((words * weights).sum().item())
    return f"{total % (1 << 64):016x}"


def told(job: Job, when: int | str, mine: str) -> list[str]:
    """What each rank says then. By the store: it must not travel the way that is being checked."""
    job.store.set(f"told/{when}/{job.rank}", mine)
    return [job.store.get(f"told/{when}/{rank}").decode() for rank in range(job.ranks)]
