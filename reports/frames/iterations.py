"""The iterations of a run as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reports.reading.rundir import RunDir
from reports.reading.trace import Trace

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMNS = ("arm", "repeat", "iteration", "start_s", "duration_ms", "bytes", "busbw_GBps", "wrong_elements")
FACTORS = {"allreduce": lambda ranks: 2 * (ranks - 1) / ranks}
"""Bus bandwidth over algorithm bandwidth, as nccl-tests defines it."""


def iterations(run: RunDir) -> DataFrame:
    """One row for each iteration that every rank finished, warm-up not counted.

    `start_s` counts from the start of the arm's first iteration; `duration_ms` is the slowest rank's own time; `bytes`
    of each rank; `busbw_GBps` is NaN for operations that have none; `wrong_elements` over all ranks.
    """
    import pandas as pd

    rows = [row for trace in run.traces for row in _rows(trace)]
    kinds = {"repeat": "int64", "iteration": "int64", "bytes": "int64", "wrong_elements": "int64"}
    floats = {"start_s": "float64", "duration_ms": "float64", "busbw_GBps": "float64"}
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({**kinds, **floats})


def _rows(trace: Trace) -> Iterator[tuple[object, ...]]:
    origin_ns, factor = trace.origin_ns(), FACTORS.get(trace.op)
    for index, ms in trace.iteration_ms().items():
        start_s = (min(start for start, _ in trace.iterations[index]) - origin_ns) / 1e9
        size = trace.sizes[index]
        busbw = size / (ms * 1e6) * factor(trace.ranks) if factor and ms and trace.ranks else float("nan")
        yield trace.arm, trace.run, index, start_s, ms, size, busbw, trace.wrong[index]
