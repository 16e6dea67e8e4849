"""How a job advances over the intervals of a trace, as a broken line that can be asked for any moment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.simulate.training.prepared import Floats, Ints, Prepared


@dataclass(frozen=True, slots=True)
class Course:
    """`rates`: progress a second of an interval, 0 where nothing runs; `busy`: until when an interval's stall lasts."""

    starts: Floats
    busy: Floats
    rates: Floats
    progress: Floats
    working: Floats

    def at(self, time_s: float) -> tuple[float, float]:
        """Progress and working seconds up to a moment, had nothing been rolled back."""
        number = int(np.searchsorted(self.starts, time_s, side="right")) - 1
        rate = float(self.rates[number])
        ran = max(0.0, time_s - max(float(self.starts[number]), float(self.busy[number]))) if rate > 0 else 0.0
        return float(self.progress[number]) + ran * rate, float(self.working[number]) + ran

    def between(self, start_s: float, end_s: float) -> tuple[float, float]:
        (before, worked), (after, working) = self.at(start_s), self.at(end_s)
        return after - before, working - worked


def course(prepared: Prepared, rates: Floats, stalls_s: Floats, backs_s: Floats) -> Course:
    """Stalls that overlap do so in time: each lasts from its own onset."""
    busy = prepared.starts.copy()
    if len(stalls_s):
        np.maximum.at(busy, prepared.event_interval, prepared.starts[prepared.event_interval] + stalls_s)
        inside = prepared.back_interval < len(busy)
        back: Ints = prepared.back_interval[inside]
        np.maximum.at(busy, back, prepared.starts[back] + backs_s[inside])
        np.maximum.accumulate(busy, out=busy)
    ran = np.where(rates > 0, np.clip(prepared.ends - np.maximum(prepared.starts, busy), 0, None), 0.0)
    progress = np.concatenate(([0.0], np.cumsum(ran * rates)))
    return Course(prepared.starts, busy, rates, progress, np.concatenate(([0.0], np.cumsum(ran))))
