"""What is called with a finished run directory, without this layer knowing who listens."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

from harness.errors import InfraError

REPORTER_GROUP = "r2cc.reporters"


class ReporterError(InfraError):
    """The run is complete and on disk, but a report could not be made from it."""


def after_run(run_dir: Path, *, quiet: bool) -> None:
    """Call every entry point of `r2cc.reporters` with the run directory; `quiet` keeps them from printing.

    All are called even if one fails. Raises ReporterError naming each that failed: the run's own files are intact.
    """
    failures: list[tuple[str, Exception]] = []
    for entry in sorted(entry_points(group=REPORTER_GROUP), key=lambda entry: entry.name):
        try:
            entry.load()(run_dir, quiet=quiet)
        except Exception as error:  # noqa: BLE001 - reporters are plug-ins: one must not cost the others their report
            failures.append((entry.name, error))
    if failures:
        what = "; ".join(f"{name}: {type(error).__name__}: {error}" for name, error in failures)
        hint = f"the run itself is complete: `r2cc report {run_dir}` tries again"
        raise ReporterError(f"no report could be made of {run_dir} ({what})", hint=hint) from failures[0][1]
