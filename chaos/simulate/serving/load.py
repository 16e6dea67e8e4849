"""The requests: when they come, and how long their prompts and outputs are. One random stream each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError

STREAMS = ("arrivals", "prompts", "outputs")
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Length:
    """Tokens: log-normal with that median, from 1 to `most`. `sigma` 0: always the median."""

    median: float
    sigma: float = 0.0
    most: int = 8192

    @property
    def mean(self) -> float:
        """But for the limits."""
        return float(self.median * np.exp(self.sigma**2 / 2))

    def draw(self, count: int, random: np.random.Generator) -> Ints:
        drawn = self.median * np.exp(self.sigma * random.standard_normal(count)) if self.sigma else self.median
        return np.full(count, np.clip(np.rint(drawn), 1, self.most)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Mix:
    prompt: Length
    output: Length
    source: str


SPLITWISE = "medians: Splitwise (ISCA'24, arXiv 2311.18677), figure 3, Azure's traces of 2023; widths (sigma) are ours"
MIXES: Mapping[str, Mix] = {
    "conversation": Mix(Length(1020, 0.8), Length(129, 0.9, 2048), SPLITWISE),
    "coding": Mix(Length(1500, 0.8), Length(13, 1.0, 1024), SPLITWISE),
    "fixed-500-1500": Mix(Length(500), Length(1500), "fixed lengths: prompts of 500, outputs of 1,500 tokens"),
}


def mix(name: str) -> Mix:
    """Raises UsageError for one that is not there."""
    if name not in MIXES:
        raise UsageError(f"there are no lengths {name}", f"one of {', '.join(MIXES)}, or prompt and output")
    return MIXES[name]


@dataclass(frozen=True, slots=True)
class Requests:
    """In the order in which they come. `seeds` are those of the streams, to be told with a result."""

    arrival_s: npt.NDArray[np.float64]
    prompt: Ints
    output: Ints
    seeds: Mapping[str, int]


def draw(count: int, rate: float, prompt: Length, output: Length, seed: int) -> Requests:
    """`rate`: requests a second, a Poisson process from 0 on. inf: all at once."""
    children = np.random.SeedSequence(seed).spawn(len(STREAMS))
    arrivals, prompts, outputs = (np.random.default_rng(child) for child in children)
    between = arrivals.exponential(1.0, count) / rate
    seeds = {name: int(child.generate_state(1)[0]) for name, child in zip(STREAMS, children, strict=True)}
    return Requests(np.cumsum(between), prompt.draw(count, prompts), output.draw(count, outputs), seeds)
