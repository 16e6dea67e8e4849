"""What failures cost in GPU hours and money, and how much an arm saves of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from chaos.simulate.jobs.job import JobResult

MONTH_S = 30 * 86400.0


@dataclass(frozen=True, slots=True)
class Saving:
    """Against a baseline, for 30 days of the whole job, means over traces. `usd`: at the price in the parameters.

    `break_even_overhead`: how much slower the arm could make every healthy iteration before it saves nothing.
    `break_even_days`: after how many days a one-off cost is saved; inf: never."""

    arm: str
    baseline: str
    gpu_hours_lost: float
    gpu_hours_saved: float
    usd: float
    break_even_overhead: float
    break_even_days: float


def gpu_hours_lost_a_month(results: Sequence[JobResult]) -> float:
    wall_s = sum(result.wall_s for result in results)
    return sum(result.gpu_hours_lost for result in results) / wall_s * MONTH_S


def saving(
    results: Sequence[JobResult], baseline: Sequence[JobResult], *, gpu_hour_usd: float, one_off_usd: float = 0.0
) -> Saving:
    """Both over the same traces."""
    lost, without = gpu_hours_lost_a_month(results), gpu_hours_lost_a_month(baseline)
    usd = (without - lost) * gpu_hour_usd
    return Saving(
        arm=results[0].arm,
        baseline=baseline[0].arm,
        gpu_hours_lost=lost,
        gpu_hours_saved=without - lost,
        usd=usd,
        break_even_overhead=_goodput(results) / _goodput(baseline) - 1,
        break_even_days=one_off_usd / usd * 30 if usd > 0 else inf,
    )


def _goodput(results: Sequence[JobResult]) -> float:
    return sum(result.progress_s for result in results) / sum(result.wall_s for result in results)
