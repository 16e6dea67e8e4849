"""A run as Python sees it: verdicts and figures by arm, and tables."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harness.errors import UsageError

if TYPE_CHECKING:
    from pandas import DataFrame

    from chaos.analysis import model
    from reports.reading.rundir import RunDir

NONE = float("nan")
BUSBW = "busbw_GBps"


@dataclass(frozen=True)
class Arm:
    """What one arm came to, over all its repeats.

    A time is the worst of all faults and repeats, without the void ones where others count. It is NaN where nothing
    could be measured: every comparison with NaN is false, so `assert arm.stall_ms < 10` fails then, as it should.
    docs/reference/figures.md says what each means.
    """

    name: str
    verdict: str
    """`holds`, `deviated`, `void` (the machine was too busy to measure) or `failed`."""
    as_expected: bool | None
    """Whether the verdict is the one that the experiment expects; None: it could not be judged."""
    completed: bool
    """Every rank finished every iteration, in every repeat."""
    iterations: int
    """Finished by every rank, of all repeats together."""
    wrong_elements: int
    """Of all results of all iterations and ranks; 0: exact."""
    stall_ms: float
    """The longest time in which a connection got no new data when a fault struck, less what is usual for it."""
    detect_ms: float
    """From the fault to the first sign that the library knew of it."""
    iteration_ms: float
    """The iteration that a fault hit."""
    degraded_ms: float
    """An iteration while a fault was on."""
    after_ms: float
    """An iteration after the last fault had been reverted."""
    return_ms: float
    """From a fault's end until all connections were back."""
    healthy_ms: float
    """An iteration without a fault: the median, of the slowest repeat."""
    busbw_GBps: float
    """Healthy bus bandwidth, of the slowest repeat."""
    metrics: dict[str, float]
    """Every other figure by its name and unit, such as `longest_gap_ms`, `cpu_busy_ratio` or `failovers`: the largest
    of all repeats."""
    reasons: tuple[str, ...]
    """Why its figures say nothing, and what ranks said went wrong; empty when all is well."""


class Run:
    """A run directory. It is read once, when something of it is asked for."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()

    def __repr__(self) -> str:
        return f"<r2cc.Run {self.path}>"

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self._read.name

    @property
    def verdict(self) -> str:
        """`holds`: every arm did as the experiment expects; `deviated`, `void` or `failed`."""
        return self._read.summary.verdict

    @property
    def reasons(self) -> list[str]:
        """Why it is not simply `holds`; empty when it is."""
        return [*self._read.summary.reasons]

    @property
    def notes(self) -> list[str]:
        """What is missing or damaged in the run directory."""
        return list(self._read.notes)

    @property
    def arms(self) -> dict[str, Arm]:
        """All arms by name, in the experiment's order."""
        return {arm.name: _arm(arm) for arm in self._read.summary.arms}

    def arm(self, name: str) -> Arm:
        """One arm. UsageError when the run has none of that name."""
        found = self.arms
        if name not in found:
            raise UsageError(f"{self.path} has no arm {name!r}", f"it has {', '.join(found) or 'none'}")
        return found[name]

    def iterations(self) -> DataFrame:
        """One row for each iteration of each repeat: arm, repeat, iteration, start_s, duration_ms, bytes, busbw_GBps,
        wrong_elements. Times count from the start of the repeat's first iteration."""
        from reports.frames.iterations import iterations

        return iterations(self._read)

    def samples(self, of: Literal["nic", "gpu"] = "nic") -> DataFrame:
        """What devices did over time. Of NICs: arm, repeat, host, nic, time_s, tx_bytes, rx_bytes (counters). Of GPUs:
        arm, repeat, host, gpu, time_s, sm_ratio, busy_ratio, memory_busy_ratio, used_bytes, sm_MHz, memory_MHz, and the
        counters nvlink_tx_bytes, nvlink_rx_bytes, pcie_tx_bytes, pcie_rx_bytes."""
        from reports.frames.samples import gpus, nics

        if of not in ("nic", "gpu"):
            raise UsageError(f"there are no samples of {of!r}", "nic or gpu")
        return nics(self._read) if of == "nic" else gpus(self._read)

    def faults(self) -> DataFrame:
        """One row for each fault of each repeat: arm, repeat, id, kind, host, nic, hit, at_iteration, onset_s,
        reverted_s, detect_ms, stall_ms, iteration_ms, iteration_bound_ms, beyond_ms, degraded_ms, degraded_bound_ms,
        after_ms, return_ms."""
        from reports.frames.faults import faults

        return faults(self._read)

    def summary(self) -> DataFrame:
        """One row for each repeat of each arm: arm, repeat, size_bytes, verdict, completed, iterations, wrong_elements,
        healthy_ms, healthy_p99_ms, the worst detect_ms, stall_ms, iteration_ms, degraded_ms, after_ms and return_ms of
        its faults, and every metric by its name and unit, as busbw_GBps."""
        from reports.frames.summary import summary

        return summary(self._read)

    @cached_property
    def _read(self) -> RunDir:
        from harness.progress import silent
        from reports.reading.rundir import load

        return load(self.path, silent)


def open(path: str | os.PathLike[str]) -> Run:
    """The run in a directory that `r2cc chaos run`, `r2cc.run` or `r2cc runs import` made.

    UsageError when there is none, or one that cannot be read. A run that was killed opens; its `notes` say
    what is missing.
    """
    found = Run(path)
    _ = found._read
    return found


def _arm(arm: model.Arm) -> Arm:
    runs = arm.runs
    counted = [run for run in runs if not run.void] or runs
    faults = [fault for run in counted for fault in run.faults]
    every = _by_column([*arm.metrics, *(metric for run in runs for metric in run.metrics)])
    timed = _by_column([*arm.metrics, *(metric for run in counted for metric in run.metrics)])
    return Arm(
        name=arm.name,
        verdict=arm.verdict,
        as_expected=arm.as_expected,
        completed=bool(runs) and all(run.completed for run in runs),
        iterations=sum(run.iterations for run in runs),
        wrong_elements=sum(run.wrong_elements for run in runs),
        stall_ms=_worst(fault.stall_ms for fault in faults),
        detect_ms=_worst(fault.detect_ms for fault in faults),
        iteration_ms=_worst(fault.iteration_ms for fault in faults),
        degraded_ms=_worst(fault.degraded_ms for fault in faults),
        after_ms=_worst(fault.after_ms for fault in faults),
        return_ms=_worst(fault.return_ms for fault in faults),
        healthy_ms=_worst(run.healthy_ms.median for run in counted),
        busbw_GBps=min(timed.get(BUSBW, []), default=NONE),
        metrics={name: max(values) for name, values in every.items() if name != BUSBW},
        reasons=tuple(dict.fromkeys(str(why) for run in runs for why in [*run.void, *run.errors])),
    )


def _by_column(metrics: Iterable[model.Metric]) -> dict[str, list[float]]:
    from reports.frames.summary import column

    found: dict[str, list[float]] = {}
    for metric in metrics:
        if metric.value is not None:
            found.setdefault(column(metric.name, metric.unit), []).append(float(metric.value))
    return found


def _worst(values: Iterable[float | None]) -> float:
    return max((value for value in values if value is not None), default=NONE)
