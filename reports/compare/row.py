"""One line of a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["better", "worse", "no difference shown", "too few runs", "only one has it"]


@dataclass(frozen=True)
class Row:
    """One figure of one arm at one size, on two sides; values are medians of the runs."""

    arm: str
    name: str
    unit: str
    size_bytes: int | None
    before: float | None
    after: float | None
    bound: float | None
    runs: tuple[int, int]
    outcome: Outcome
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    p_adjusted: float | None = None
