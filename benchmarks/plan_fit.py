"""The planner's cost parameters (docs/internals/schedule-costs.md) from what schedules took at two sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """A schedule at two sizes, the smaller first, in us: measured, and as predicted at full efficiency without hops."""

    measured: tuple[float, float]
    predicted: tuple[float, float]

    @property
    def efficiency(self) -> float:
        """The reached share of the NICs' bandwidth: what a byte more should take over what it takes. At most 1."""
        return min(1.0, (self.predicted[1] - self.predicted[0]) / (self.measured[1] - self.measured[0]))


def fitted(pairs: Mapping[str, Pair], tiny_ring_us: float, hosts: int) -> dict[str, float]:
    """Cost parameters by name. `pairs`: of the healthy ring, chain_fixed and optcc, as far as they were measured.

    A hop is a tiny ring's, whose bytes take no time: it has 2 (hosts - 1) in a row. The intercept of large ones would
    be less than nothing in the lab, where a bucket lets the first bytes through at once.
    """
    names = {"healthy": "ring_efficiency", "chain_fixed": "chain_efficiency", "optcc": "staged_efficiency"}
    found = {names[schedule]: round(pair.efficiency, 3) for schedule, pair in pairs.items()}
    return {"hop_us": round(tiny_ring_us / (2 * (hosts - 1)), 1), **found}


def words(cost: Mapping[str, float]) -> str:
    """As `r2cc plan --cost` takes them."""
    return ",".join(f"{name}={value:g}" for name, value in cost.items())


def costs_of(texts: tuple[str, ...]) -> dict[str, float]:
    """Back from words. Raises ValueError for what is no NAME=NUMBER."""
    pairs = (word.partition("=") for text in texts for word in text.split(",") if word)
    return {name: float(value) for name, _, value in pairs}
