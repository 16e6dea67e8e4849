"""Inference as a server does it: prompts are read (prefill), then tokens come one by one from a KV cache, on all ranks.

Tensor parallel, as Megatron-LM's attention and MLP are (Shoeybi et al. 2019, section 3): each rank has a part of the
heads and of the MLP; one all-reduce after each. An iteration is one batch of requests. Its line has `ttft_ms`,
`gaps_ms` (each later token's time) and `result`, a digest of the text. Greedy: the same prompts give the same text.
Settings: `layers`, `hidden`, `heads`, `vocabulary`, `batch`, `prompt`, `tokens`, `dtype`.
"""

from __future__ import annotations

import hashlib
import math
import time
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional

from harness.workloads.job import Job, Outcome

PROMPTS = 2
"""Different ones; from the third request on, each has to give the text that it gave before."""
SHARP = 2.0
"""How much larger than usual weights are: small ones would leave each token to the one before it alone."""
SETTINGS = {"layers": 8, "hidden": 1024, "heads": 16, "vocabulary": 4096, "batch": 8, "prompt": 256, "tokens": 64}

BITS = {8: torch.int64, 4: torch.int32, 2: torch.int16}


class Layer:
    """This rank's part of one layer's weights, cut from whole ones that all ranks draw alike."""

    def __init__(self, job: Job, draw: torch.Generator, hidden: int, dtype: torch.dtype) -> None:
        def part(rows: int, columns: int, cut: int) -> torch.Tensor:
            whole = SHARP * torch.randn(rows, columns, generator=draw) / math.sqrt(columns)
            return whole.chunk(job.ranks, dim=cut)[job.rank].contiguous().to(job.device, dtype)

        self.q, self.k, self.v = (part(hidden, hidden, 0) for _ in range(3))
        self.out = part(hidden, hidden, 1)
        self.wide, self.narrow = part(4 * hidden, hidden, 0), part(hidden, 4 * hidden, 1)


class Model:
    """The whole of it: tokens in, the next token out. The cache grows in place."""

    def __init__(self, job: Job, settings: dict[str, int], dtype: torch.dtype) -> None:
        self._hidden, self._heads = settings["hidden"], settings["heads"] // job.ranks
        self._width = settings["hidden"] // settings["heads"]
        draw = torch.Generator().manual_seed(job.seed)
        table = torch.randn(settings["vocabulary"], self._hidden, generator=draw)
        self._table = table.to(job.device, dtype)
        self._head = torch.randn(settings["vocabulary"], self._hidden, generator=draw).to(job.device, dtype)
        self._layers = [Layer(job, draw, self._hidden, dtype) for _ in range(settings["layers"])]
        length = settings["prompt"] + settings["tokens"]
        shape = (settings["layers"], 2, settings["batch"], self._heads, length, self._width)
        self._cache = torch.zeros(shape, device=job.device, dtype=dtype)
        self._mask = torch.full((length, length), float("-inf"), device=job.device, dtype=dtype).triu(1)

    def next_tokens(self, tokens: torch.Tensor, at: int) -> tuple[torch.Tensor, torch.Tensor]:
        """`tokens`: (batch, new), at places `at`...; the token after the last of them, (batch, 1), and its mark.

        A mark is the sum of all bits that the token was chosen by: a small error seldom makes another token.
        """
        x = functional.embedding(tokens, self._table)
        for number, layer in enumerate(self._layers):
            x = x + self._summed(self._attend(number, layer, self._normal(x), at))
            x = x + self._summed(functional.gelu(self._normal(x) @ layer.wide.T) @ layer.narrow.T)
        state = self._normal(x[:, -1:])
        return (state @ self._head.T).argmax(dim=-1), state.view(BITS[state.element_size()]).sum(dim=-1)

    def _attend(self, number: int, layer: Layer, x: torch.Tensor, at: int) -> torch.Tensor:
        batch, new, _hidden = x.shape
        shape, end = (batch, new, self._heads, self._width), at + x.shape[1]
        q, k, v = ((x @ weight.T).view(shape).transpose(1, 2) for weight in (layer.q, layer.k, layer.v))
        keys, values = self._cache[number]
        keys[:, :, at:end], values[:, :, at:end] = k, v
        weights = q @ keys[:, :, :end].transpose(-1, -2) / math.sqrt(self._width) + self._mask[at:end, :end]
        mixed = torch.softmax(weights, dim=-1) @ values[:, :, :end]
        return mixed.transpose(1, 2).reshape(batch, new, -1) @ layer.out.T

    def _normal(self, x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (self._hidden,))

    def _summed(self, x: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(x)
        return x


class Workload:
    """One iteration answers one batch of prompts."""

    op = "decode"

    def __init__(self, job: Job) -> None:
        self._job = job
        settings = {name: int(job.spec.get(name, usual)) for name, usual in SETTINGS.items()}
        hidden, heads = settings["hidden"], settings["heads"]
        if heads % job.ranks or hidden % heads:
            raise ValueError(f"{heads} heads of hidden {hidden} cannot be split over {job.ranks} ranks")
        dtype = getattr(torch, job.spec.get("dtype", "float32"))
        torch.backends.cuda.matmul.allow_tf32 = False
        self._model = Model(job, settings, dtype)
        self._tokens, vocabulary = settings["tokens"], settings["vocabulary"]
        draw = torch.Generator().manual_seed(job.seed + 1)
        shape = (PROMPTS, settings["batch"], settings["prompt"])
        self._prompts = torch.randint(0, vocabulary, shape, generator=draw).to(job.device)
        width = torch.empty(0, dtype=dtype).element_size()
        words = settings["prompt"] + settings["tokens"] - 1
        self.bytes = 2 * settings["layers"] * settings["batch"] * settings["hidden"] * width * words
        self._said = torch.zeros(0)
        """Of the last iteration: (2, batch, tokens), tokens and marks."""
        self._ends_ns: list[int] = []
        self._known: dict[int, torch.Tensor] = {}
        self._corrupt = tuple(map(int, job.given.corrupt.split(":"))) if job.given.corrupt else None

    def prepare(self, index: int) -> None:
        self._ends_ns = []

    @torch.no_grad()
    def run(self, index: int) -> None:
        prompt = self._prompts[index % PROMPTS]
        self._ends_ns.append(time.monotonic_ns())
        token, mark = self._model.next_tokens(prompt, 0)
        text, marks = [token], [mark]
        self._ended()
        for place in range(self._tokens - 1):
            token, mark = self._model.next_tokens(token, prompt.shape[1] + place)
            text.append(token)
            marks.append(mark)
            self._ended()
        self._said = torch.stack([torch.cat(text, dim=1), torch.cat(marks, dim=1)])

    def _ended(self) -> None:
        """A server sends each token when it is there."""
        self._job.finish()
        self._ends_ns.append(time.monotonic_ns())

    def check(self, index: int) -> Outcome:
        """All ranks have the same text, and prompts that were there before the text that they gave then, bit by bit."""
        said = self._said.cpu()
        if self._corrupt == (self._job.rank, index):
            said[0, 0, 0] += 1
        every: list[Any] = [None] * self._job.ranks
        dist.all_gather_object(every, said)
        known = self._known.setdefault(index % PROMPTS, every[0])
        wrong = int(((said != every[0]) | (said != known)).any(dim=0).sum())
        took_ms = [(end - begin) / 1e6 for begin, end in zip(self._ends_ns, self._ends_ns[1:])]  # noqa: B905
        result = hashlib.sha256(said[0].numpy().tobytes()).hexdigest()[:16]
        return Outcome(wrong, {"ttft_ms": took_ms[0], "gaps_ms": took_ms[1:], "result": result})
