"""What the command layer calls after a run: entry point of group `r2cc.reporters`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.progress import Progress


def after_run(run_dir: Path, *, quiet: bool) -> None:
    """Write report.html and report.md into the run directory; print the verdict unless `quiet`.

    Prints to standard error: standard output belongs to the run's `--json`.
    """
    from harness.progress import show, silent

    write, run = opened(run_dir, silent if quiet else show)
    paths = [write.write(run, kind, run_dir) for kind in write.AFTER_RUN]
    if not quiet:
        write.show(run, sys.stderr)
        print(f"report: {paths[-1]}", file=sys.stderr)


def opened(run_dir: Path, progress: Progress) -> tuple[Any, Any]:
    """What writes reports of what is in the directory, and that: a run, or a simulation."""
    from reports.simulation.model import is_simulation

    if is_simulation(run_dir):
        from reports.simulation import model
        from reports.simulation import write as write_simulation

        return write_simulation, model.load(run_dir)
    from reports.formats import write
    from reports.reading.rundir import load

    return write, load(run_dir, progress)
