"""When faults strike: from the workload's progress, or the time since it began. Pure bookkeeping, no clock inside."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos.analysis.stats import median
from chaos.faults.spec import FaultSpec

Action = Callable[[], None]


@dataclass
class Timers:
    """Actions due at monotonic times, earliest first."""

    _heap: list[tuple[int, int, Action]] = field(default_factory=list)
    _count: int = 0

    def at(self, t_ns: int, action: Action) -> None:
        self._count += 1
        heapq.heappush(self._heap, (t_ns, self._count, action))

    def due(self, now_ns: int) -> list[Action]:
        """Takes out what is due."""
        found = []
        while self._heap and self._heap[0][0] <= now_ns:
            found.append(heapq.heappop(self._heap)[2])
        return found

    def next_ns(self) -> int | None:
        return self._heap[0][0] if self._heap else None


@dataclass
class Counts:
    """What NCCL's profiler interface has counted of each rank, over its communicators."""

    bytes_: dict[tuple[int, str], int] = field(default_factory=dict)
    collectives: dict[tuple[int, str], int] = field(default_factory=dict)

    def add(self, line: Mapping[str, Any]) -> None:
        """A `traffic` line."""
        key = int(line.get("rank") or 0), str(line.get("comm"))
        self.bytes_[key], self.collectives[key] = int(line["bytes"]), int(line["collectives"])

    def reached(self, spec: FaultSpec) -> bool:
        """Whether any rank has come as far as `spec` waits for."""
        for wanted, counted in ((spec.at.bytes, self.bytes_), (spec.at.collective, self.collectives)):
            if wanted is not None:
                ranks: Counter[int] = Counter()
                for (rank, _), count in counted.items():
                    ranks[rank] += count
                return max(ranks.values(), default=0) >= wanted
        return False


@dataclass
class Pace:
    """How long iterations took so far, the slowest rank counting; warm-up serves only until one was measured."""

    ranks: int
    measured_ms: list[float] = field(default_factory=list)
    warmup_ms: list[float] = field(default_factory=list)
    _open: dict[int, list[float]] = field(default_factory=dict)

    def ended(self, index: int, took_ms: float) -> float | None:
        """Notes one rank's iteration; the iteration's time when that was the last rank."""
        times = self._open.setdefault(index, [])
        times.append(took_ms)
        if len(times) < self.ranks:
            return None
        (self.measured_ms if index >= 0 else self.warmup_ms).append(max(times))
        return max(self._open.pop(index))

    def median_ms(self) -> float:
        """0 when nothing has ended yet: a fraction of an unknown time is its beginning."""
        return median(self.measured_ms) or median(self.warmup_ms) or 0.0


def foreseen(line: Mapping[str, Any], pace: Pace) -> Pace:
    """The pace that a `progress` line says, of a program that measures itself and reports at its end; else what was."""
    return Pace(pace.ranks, [float(line["usual_ms"])]) if "usual_ms" in line else pace


def strike_ns(spec: FaultSpec, index: int, start_ns: int, pace: Pace) -> int | None:
    """When `spec` strikes, judged by iteration `index` having begun at `start_ns`; None: not because of this one.

    A fraction is one of the median iteration so far, because how long this iteration will take is not known yet.
    """
    if spec.at.time_s is not None:
        return start_ns + round(spec.at.time_s * 1e9) if index == 0 else None
    if index != spec.at.iteration:
        return None
    return start_ns + round((spec.at.fraction or 0.0) * pace.median_ms() * 1e6)
