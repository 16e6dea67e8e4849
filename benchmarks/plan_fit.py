"""The planner's cost parameters (docs/schedules.md, "Costs") from what schedules took at two sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """A schedule at a small and at a large size, in us: measured, and as predicted at full efficiency without hops."""

    measured: tuple[float, float]
    predicted: tuple[float, float]

    @property
    def efficiency(self) -> float:
        """The reached share of the NICs' bandwidth: what a byte more should take over what it takes. At most 1."""
        return min(1.0, (self.predicted[1] - self.predicted[0]) / (self.measured[1] - self.measured[0]))

    def hop_us(self, hops: int) -> float:
        """What is left of the small size when its bytes' time is taken away, for each hop. Not below 0."""
        return max(0.0, (self.measured[0] - self.predicted[0] / self.efficiency) / hops)


def fitted(pairs: Mapping[str, Pair], hosts: int) -> dict[str, float]:
    """Cost parameters by name. `pairs`: of the healthy ring, chain_fixed and optcc, as far as they were measured.

    A hop is the ring's: it has 2 (hosts - 1) in a row, and nothing to fill.
    """
    names = {"healthy": "ring_efficiency", "chain_fixed": "chain_efficiency", "optcc": "staged_efficiency"}
    found = {names[schedule]: round(pair.efficiency, 3) for schedule, pair in pairs.items()}
    return {"hop_us": round(pairs["healthy"].hop_us(2 * (hosts - 1)), 1), **found}


def words(cost: Mapping[str, float]) -> str:
    """As `r2cc plan --cost` takes them."""
    return ",".join(f"{name}={value:g}" for name, value in cost.items())


def costs_of(texts: tuple[str, ...]) -> dict[str, float]:
    """Back from words. Raises ValueError for what is no NAME=NUMBER."""
    pairs = (word.partition("=") for text in texts for word in text.split(",") if word)
    return {name: float(value) for name, _, value in pairs}
