"""Writing a run's figures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.files.writing import write_whole
from reports.formats.view import shown_traces
from reports.papers import over_time, style
from reports.papers.stalls import measured, stalls
from reports.reading.rundir import RunDir

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANEL_IN, FRAME_IN = 1.1, 0.4


def write(run: RunDir, form: str, target: Path) -> list[Path]:
    """`figure-<name>.<form>` for each that the run has something for, in the folder `target`.

    UsageError without matplotlib, and for a run with nothing to draw.
    """
    style.check()
    traces = [trace for trace in shown_traces(run) if trace.iterations]
    found: dict[str, tuple[Callable[[Figure], None], float]] = {}
    if any(trace.samples for trace in traces):
        height = FRAME_IN + PANEL_IN * len(traces)
        found["bandwidth"] = (partial(over_time.bandwidth, run=run, traces=traces), height)
    if traces:
        found["iterations"] = (partial(over_time.iterations, traces=traces), 2.2)
    if measured(run.summary)[1]:
        count = len(measured(run.summary)[1])
        found["stalls"] = (partial(stalls, summary=run.summary), 0.6 + 0.3 * count)
    if not found:
        raise UsageError(f"{run.path} has nothing to draw: no iterations and no faults", "see r2cc report")
    return [
        write_whole(target / f"figure-{name}.{form}", style.drawn(draw, height, form))
        for name, (draw, height) in found.items()
    ]
