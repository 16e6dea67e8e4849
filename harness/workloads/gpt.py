"""A small decoder-only transformer to be trained, and what tells two trainings apart. No dropout, no fused kernels."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn


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
        self.register_buffer("mask", torch.full((sequence, sequence), float("-inf")).triu(1), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        sequence = tokens.shape[1]
        x = self.tokens(tokens) + self.places(torch.arange(sequence, device=tokens.device))
        for block in self.blocks:
            x = block(x, self.mask[:sequence, :sequence])
        return self.logits(self.last(x))


def loss_of(logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Cross entropy of the tokens that should have come."""
    return nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), wanted.reshape(-1))


def deterministic(cuda: bool) -> None:
    """The same bits every time: algorithms that add up in one order, no shortened mantissas."""
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    if cuda:
        torch.backends.cudnn.benchmark = False


def digest(tensors: Any) -> str:
    """64 bits that tell whether any bit of any tensor differs: two sums of its words, each weighted by its place."""
    total, weighted = 0, 0
    for number, tensor in enumerate(tensors):
        flat = tensor.detach().contiguous().view(-1)
        words = flat.view(torch.int32 if flat.element_size() == 4 else torch.int16).to(torch.int64)
        places = torch.arange(len(words), device=words.device, dtype=torch.int64)
        total += int(words.sum().item())
        weighted += int((words * (places % 65521 + number + 1)).sum().item())
    return f"{total & 0xFFFFFFFF:08x}{weighted & 0xFFFFFFFF:08x}"
