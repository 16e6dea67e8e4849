"""The faults of a run, and what each did, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.reading.rundir import RunDir

if TYPE_CHECKING:
    from pandas import DataFrame

    from chaos.analysis.model import FaultFigures

WORDS = ("id", "kind", "host", "nic")
FIGURES = (
    "detect_ms",
    "stall_ms",
    "iteration_ms",
    "iteration_bound_ms",
    "beyond_ms",
    "degraded_ms",
    "degraded_bound_ms",
    "after_ms",
    "return_ms",
)
COLUMNS = ("arm", "repeat", *WORDS, "hit", "at_iteration", "onset_s", "reverted_s", *FIGURES)


def faults(run: RunDir) -> DataFrame:
    """One row for each fault of each repeat. Figures are those of summary.json (docs/reference/figures.md); NaN: could
    not be measured. `onset_s` and `reverted_s` count as `start_s` of iterations, and are those of the first outage's
    beginning and the last one's end."""
    import pandas as pd

    origins = {(trace.arm, trace.run): trace.origin_ns() for trace in run.traces}
    rows = [
        _row(arm.name, repeat.run, fault, origins)
        for arm in run.summary.arms
        for repeat in arm.runs
        for fault in repeat.faults
    ]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    numbers = dict.fromkeys(("onset_s", "reverted_s", *FIGURES), "float64")
    return frame.astype({**numbers, "repeat": "int64", "at_iteration": "Int64"})


def _row(arm: str, repeat: int, fault: FaultFigures, origins: dict[tuple[str, int], int]) -> dict[str, object]:
    origin_ns = origins.get((arm, repeat))
    moments = {"onset_s": fault.onset_ns, "reverted_s": fault.reverted_ns}
    placed = {name: None if ns is None or origin_ns is None else (ns - origin_ns) / 1e9 for name, ns in moments.items()}
    plain = {name: getattr(fault, name) for name in (*WORDS, "hit", "at_iteration", *FIGURES)}
    return {"arm": arm, "repeat": repeat, **plain, **placed}
