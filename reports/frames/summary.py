"""What a run came to, as a table with a row for each repeat of each arm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from reports.reading.rundir import RunDir

if TYPE_CHECKING:
    from pandas import DataFrame

    from chaos.analysis.model import Arm, Metric, Run

Json = dict[str, Any]
FIRST = ("arm", "repeat", "size_bytes", "verdict", "completed", "iterations", "wrong_elements")
WORST = ("detect_ms", "stall_ms", "iteration_ms", "degraded_ms", "after_ms", "return_ms")
"""Of the faults of a repeat the largest."""
COUNTS = ("connections", "elements", "iterations", "count", "")
"""Units that a name says already."""


def summary(run: RunDir) -> DataFrame:
    """One row for each repeat of each arm; of figures for several message sizes, one for each size.

    Columns: those of FIRST, `healthy_ms` (median), `healthy_p99_ms`, the worst of all faults of WORST, and every metric
    of the run by its name and unit. What has no value is NaN. Figures of another tool have no repeats: `repeat` is -1.
    """
    import pandas as pd

    rows = [row for arm in run.summary.arms for row in _of_arm(arm)]
    named = dict.fromkeys((*FIRST, "healthy_ms", "healthy_p99_ms", *WORST, *(name for row in rows for name in row)))
    frame = pd.DataFrame(rows, columns=list(named))
    numbers = [name for name in named if name not in FIRST]
    whole = dict.fromkeys(("size_bytes", "iterations", "wrong_elements"), "Int64")
    return frame.astype({**dict.fromkeys(numbers, "float64"), **whole, "repeat": "int64"})


def column(name: str, unit: str) -> str:
    """What the column of a metric is called: its name, with its unit unless that is in it already."""
    return name if unit in COUNTS or name.endswith(f"_{unit}") else f"{name}_{unit}"


def _of_arm(arm: Arm) -> Iterator[Json]:
    for repeat in arm.runs:
        yield from _by_size(_of_repeat(arm, repeat), repeat.metrics)
    if not arm.runs:
        yield from _by_size({"arm": arm.name, "repeat": -1, "verdict": arm.verdict}, arm.metrics)


def _of_repeat(arm: Arm, repeat: Run) -> Json:
    plain = {name: getattr(repeat, name) for name in ("verdict", "completed", "iterations", "wrong_elements")}
    healthy = {"healthy_ms": repeat.healthy_ms.median, "healthy_p99_ms": repeat.healthy_ms.p99}
    found = {name: [getattr(fault, name) for fault in repeat.faults] for name in WORST}
    worst = {name: max((v for v in values if v is not None), default=None) for name, values in found.items()}
    return {"arm": arm.name, "repeat": repeat.run, **plain, **healthy, **worst}


def _by_size(row: Json, metrics: list[Metric]) -> Iterator[Json]:
    """What is of no size goes into every row; without any size there is one row."""
    sizes: list[int | None] = [*sorted({each.size_bytes for each in metrics if each.size_bytes is not None})]
    for size in sizes or [None]:
        chosen = [metric for metric in metrics if metric.size_bytes in (size, None)]
        values = {column(metric.name, metric.unit): metric.value for metric in chosen}
        yield {**row, "size_bytes": size, **values}
