"""What the command layer calls after a run: entry point of group `r2cc.reporters`."""

from __future__ import annotations

import sys
from pathlib import Path


def after_run(run_dir: Path, *, quiet: bool) -> None:
    """Write report.html and report.md into the run directory; print the verdict unless `quiet`.

    Prints to standard error: standard output belongs to the run's `--json`.
    """
    from harness.progress import show, silent
    from reports.formats import terminal, write
    from reports.reading.rundir import load
    from reports.simulation.model import is_simulation

    if is_simulation(run_dir):
        _after_simulation(run_dir, quiet=quiet)
        return
    run = load(run_dir, silent if quiet else show)
    paths = [write.write(run, kind, run_dir) for kind in ("md", "html")]
    if quiet:
        return
    terminal.show(run, sys.stderr)
    print(f"report: {paths[-1]}", file=sys.stderr)


def _after_simulation(run_dir: Path, *, quiet: bool) -> None:
    from reports.simulation import model, write

    sim = model.load(run_dir)
    paths = [write.write(sim, kind, run_dir) for kind in ("md", "csv", "html")]
    if quiet:
        return
    print(write.terminal(sim), file=sys.stderr)
    print(f"report: {paths[-1]}", file=sys.stderr)
