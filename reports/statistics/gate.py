"""Whether a change made named series better or worse: interleaved runs of both, judged once (page 30, Reports)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.errors import UsageError
from reports.statistics.holm import adjusted
from reports.statistics.shift import Shift, shift

MOST_SERIES = 4
FEWEST_RUNS = 12
"""Of each arm."""
MINIMUM_EFFECT = 0.02
"""Shifts smaller than this are none, however sure they are."""
ALPHA = 0.05

Outcome = Literal["better", "worse", "no difference shown"]


@dataclass(frozen=True)
class Series:
    """Figures of one thing that was named beforehand: one a run, before and after the change."""

    name: str
    before: Sequence[float]
    after: Sequence[float]
    more_is_better: bool


@dataclass(frozen=True)
class Finding:
    """What can be said of one series."""

    name: str
    outcome: Outcome
    shift: Shift
    p_adjusted: float

    @property
    def sentence(self) -> str:
        """For people."""
        percent, low, high = ((ratio - 1) * 100 for ratio in (self.shift.ratio, self.shift.low, self.shift.high))
        figures = f"{percent:+.1f} %, 95 % in {low:+.1f}..{high:+.1f} %, p {self.p_adjusted:.2g}"
        return f"{self.name}: {self.outcome} ({figures})"


def judge(
    series: Sequence[Series], *, minimum_effect: float = MINIMUM_EFFECT, alpha: float = ALPHA, fewest: int = FEWEST_RUNS
) -> list[Finding]:
    """One finding a series. UsageError for too many series or too few runs: alpha would not hold."""
    if len(series) > MOST_SERIES:
        raise UsageError(
            f"{len(series)} series are too many to judge together", f"name at most {MOST_SERIES} beforehand"
        )
    short = [each.name for each in series if min(len(each.before), len(each.after)) < fewest]
    if short:
        raise UsageError(f"too few runs of {', '.join(short)}", f"at least {fewest} of each arm are needed")
    shifts = [shift(each.before, each.after) for each in series]
    sure = adjusted([found.p for found in shifts])
    return [
        Finding(each.name, _outcome(each, found, p, minimum_effect, alpha), found, p)
        for each, found, p in zip(series, shifts, sure, strict=True)
    ]


def _outcome(series: Series, found: Shift, p: float, minimum_effect: float, alpha: float) -> Outcome:
    if p >= alpha or 1 / (1 + minimum_effect) < found.ratio < 1 + minimum_effect:
        return "no difference shown"
    return "better" if (found.ratio > 1) is series.more_is_better else "worse"
