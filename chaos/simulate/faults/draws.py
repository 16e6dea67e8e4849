"""What processes draw, as arrays: Poisson processes over many alike elements, log-normal durations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaos.simulate.faults.trace import Kind, What

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MONTH_S = 30 * 86400.0


@dataclass(frozen=True, slots=True)
class Drawn:
    """Faults of one process; `where` has a row a fault."""

    kind: Kind
    what: What
    t_s: Floats
    duration_s: Floats
    where: Ints
    factor: Floats | None = None
    silent: bool = False


class Draws:
    """A stream, the parameters of its process, and how long the trace is."""

    def __init__(self, random: np.random.Generator, params: Mapping[str, Any], horizon_s: float) -> None:
        self.random = random
        self.horizon_s = horizon_s
        self._params = params

    def value(self, name: str) -> float:
        return float(self._params[name].value)

    def times(self, rate: str, elements: int) -> tuple[Floats, Ints]:
        """Onsets of `elements` independent Poisson processes of `rate` a month, and which element each is of."""
        count = int(self.random.poisson(self.value(rate) * elements * self.horizon_s / MONTH_S))
        return self.random.uniform(0.0, self.horizon_s, count), self.random.integers(elements, size=count)

    def lasting(self, name: str, sigma: str, count: int) -> Floats:
        """Log-normal by median and sigma, a millisecond at least."""
        drawn: Floats = self.random.lognormal(log(self.value(name)), self.value(sigma), count)
        return np.maximum(drawn, 1e-3)

    def between(self, least: str, most: str, count: int) -> Floats:
        return self.random.uniform(self.value(least), self.value(most), count)

    def chosen(self, share: str, elements: int) -> Ints:
        """Some of the elements, each with the same chance."""
        return np.flatnonzero(self.random.random(elements) < self.value(share))


def split(element: Ints, *sizes: int) -> Ints:
    """Numbers of elements to rows of indices, the last size fastest."""
    return np.stack(np.unravel_index(element, sizes), axis=1).astype(np.int64)
