"""What a simulation is cut into: a cell is one point with one block of traces, all arms of it together.

Seeds come from what a trace is, the experiment's seed and the trace's own number, never from who runs it or when. All
points see the same traces as far as their topologies allow: what differs between them is then not chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SAFE_BITS = 53
"""Integers of JSON that every reader takes as they are."""
TRACES, SERVICE = 0, 1
"""Streams of a trace: what fails, and the requests that come meanwhile."""


@dataclass(frozen=True)
class Cell:
    """Traces `first` to `first + count - 1` at one point."""

    point: int
    first: int
    count: int

    @property
    def id(self) -> str:
        return f"p{self.point:04d}-t{self.first:06d}"

    @property
    def traces(self) -> range:
        return range(self.first, self.first + self.count)


def of_point(point: int, traces: int, block: int) -> list[Cell]:
    """The cells of one point. How many depends on the file alone, so that everyone makes the same."""
    return [Cell(point, first, min(block, traces - first)) for first in range(0, traces, block)]


def seed_of(seed: int, trace: int, stream: int = TRACES) -> int:
    """The seed of a trace's stream."""
    from numpy.random import SeedSequence

    high, low = SeedSequence(seed, spawn_key=(trace, stream)).generate_state(2, "uint32").tolist()
    return int((high << 32 | low) >> (64 - SAFE_BITS))


def problems(value: Any, cell: Cell, arms: Sequence[str]) -> str | None:
    """Why a file's content is not that cell's result; None when it is."""
    if not isinstance(value, Mapping) or value.get("cell") != cell.id or value.get("traces") != list(cell.traces):
        return "it is of another cell"
    if list(value.get("arms", {})) != list(arms):
        return "it has other arms"
    return None
