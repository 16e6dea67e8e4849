"""What the command layer calls after a run: entry point of group `r2cc.reporters`."""

from __future__ import annotations

import sys
from pathlib import Path


def after_run(run_dir: Path, *, quiet: bool) -> None:
    """Write report.html and report.md into the run directory; print the verdict unless `quiet`.

    Prints to standard error: standard output belongs to the run's `--json`.
    """
    from reports import terminal, write
    from reports.rundir import load

    run = load(run_dir)
    paths = [write.write(run, kind, run_dir) for kind in ("md", "html")]
    if quiet:
        return
    terminal.show(run, sys.stderr)
    print(f"report: {paths[-1]}", file=sys.stderr)
