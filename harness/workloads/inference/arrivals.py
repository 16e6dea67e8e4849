"""Which requests are sent, and when: drawn from a seed, the same in every arm. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LOWEST_TOKEN = 3
"""Those below begin, end or fill a text in most vocabularies."""


@dataclass(frozen=True)
class Load:
    """What is asked for; lengths are (least, most) in tokens, drawn evenly."""

    requests: int
    rate: float
    """Requests a second, on average: a Poisson process."""
    prompt_tokens: tuple[int, int]
    output_tokens: tuple[int, int]
    vocabulary: int
    warmup: int
    seed: int
    seconds: float
    """Not 0: none is sent later."""
    request_s: float
    """How long an answer may take."""
    start_s: float
    """How long the server may take until it is ready."""
    port: int
    tokens: str
    """Which chunks of a stream are tokens: of harness/workloads/inference/completions.py."""

    @classmethod
    def of(cls, spec: dict[str, Any]) -> Load:
        lengths = {name: (int(spec[name][0]), int(spec[name][1])) for name in ("prompt_tokens", "output_tokens")}
        return cls(**{**spec, **lengths})


@dataclass(frozen=True)
class Request:
    index: int
    """Negative: warm-up."""
    at_s: float
    """After the first one."""
    prompt: tuple[int, ...]
    output_tokens: int


def requests(load: Load) -> Iterator[Request]:
    """In the order in which they are sent; those of the warm-up, which wait for each other, come first."""
    draw = random.Random(load.seed)
    at_s = 0.0
    for index in range(-load.warmup, load.requests):
        prompt = tuple(draw.randrange(LOWEST_TOKEN, load.vocabulary) for _ in range(draw.randint(*load.prompt_tokens)))
        output = draw.randint(*load.output_tokens)
        if load.seconds and at_s > load.seconds:
            return
        yield Request(index, at_s, prompt, output)
        if index >= 0:
            at_s += draw.expovariate(load.rate)
