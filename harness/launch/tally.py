"""What a job's lines (docs/reference/contracts.md) come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from harness.schemas.form import Count, left_out

OK, WRONG, BROKEN = 0, 1, 3
ERRORS_KEPT = 64


@dataclass(frozen=True)
class IterationMs:
    median: float
    max: float


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What a job's lines come to."""

    completed: bool
    iterations: Count
    wrong_elements: Count
    iteration_ms: IterationMs | None
    busbw_GBps: float | None
    loss: float | None = left_out()
    ttft_ms: float | None = left_out()


@dataclass
class Tally:
    """Fed with every line of every rank."""

    ranks: int
    starts: dict[int, dict[str, Any]] = field(default_factory=dict)
    ends: dict[int, dict[str, Any]] = field(default_factory=dict)
    times_ms: dict[int, list[float]] = field(default_factory=dict)
    """Of each iteration that counts, what the ranks took."""
    last: dict[str, Any] = field(default_factory=dict)
    wrong: int = 0
    errors: list[dict[str, Any]] = field(default_factory=list)

    def add(self, line: Mapping[str, Any]) -> float | None:
        """Seconds that an iteration took on the rank that says it has ended it; None for other lines."""
        event, rank = line["event"], line.get("rank")
        if not isinstance(rank, int):
            return None
        if event == "bench_start":
            self.starts[rank] = dict(line)
        elif event == "bench_end":
            self.ends[rank] = dict(line)
        elif event == "error" and len(self.errors) < ERRORS_KEPT:
            self.errors.append(dict(line))
        elif event == "iteration":
            return self._iteration(line)
        return None

    def _iteration(self, line: Mapping[str, Any]) -> float:
        took_s = (line["end_ns"] - line["start_ns"]) / 1e9
        self.wrong += line.get("wrong_elements", 0)
        if line["index"] >= 0:
            self.times_ms.setdefault(line["index"], []).append(took_s * 1e3)
            self.last = dict(line)
        return float(took_s)

    def blamed(self) -> int | None:
        """The rank that others say has died, and that said nothing itself."""
        said = {line.get("rank") for line in self.errors}
        peers = [line.get("peer") for line in self.errors]
        found = [peer for peer in peers if isinstance(peer, int) and 0 <= peer < self.ranks and peer not in said]
        return found[0] if found else None

    @property
    def whole(self) -> int:
        """Iterations that all ranks have ended."""
        return sum(len(times) == self.ranks for times in self.times_ms.values())

    @property
    def completed(self) -> bool:
        return len(self.ends) == self.ranks

    def slowest_ms(self) -> list[float]:
        """Of each iteration the rank that took longest."""
        return [max(times) for times in self.times_ms.values() if len(times) == self.ranks]

    def busbw_GBps(self) -> float | None:
        """As nccl-tests has it: of all-reduces alone. From the median iteration."""
        start = next(iter(self.starts.values()), {})
        times = self.slowest_ms()
        if start.get("op") != "allreduce" or not times or median(times) <= 0:
            return None
        moved = start["bytes"] * start.get("in_a_row", 1) * 2 * (self.ranks - 1) / self.ranks
        return float(moved / median(times) / 1e6)

    def figures(self) -> Figures:
        times = self.slowest_ms()
        return Figures(
            completed=self.completed,
            iterations=self.whole,
            wrong_elements=self.wrong,
            iteration_ms=IterationMs(median(times), max(times)) if times else None,
            busbw_GBps=self.busbw_GBps(),
            loss=self.last.get("loss"),
            ttft_ms=self.last.get("ttft_ms"),
        )
