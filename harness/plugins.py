"""What is called with a finished run directory, without this layer knowing who listens."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

from harness.errors import InfraError

REPORTER_GROUP = "r2cc.reporters"
CAMPAIGN_GROUP = "r2cc.campaign_reporters"


class ReporterError(InfraError):
    """The run is complete and on disk, but a report could not be made from it."""


def after_run(run_dir: Path, *, quiet: bool) -> None:
    """Call every entry point of `r2cc.reporters` with the run directory; `quiet` keeps them from printing.

    All are called even if one fails. Raises ReporterError naming each that failed: the run's own files are intact.
    """
    _call(REPORTER_GROUP, run_dir, f"the run itself is complete: `r2cc report {run_dir}` tries again", quiet=quiet)


def after_campaign(folder: Path, *, quiet: bool) -> None:
    """The same with a campaign's directory and `r2cc.campaign_reporters`."""
    _call(CAMPAIGN_GROUP, folder, "the cells' own files are complete: run the campaign again", quiet=quiet)


def _call(group: str, folder: Path, hint: str, *, quiet: bool) -> None:
    failures: list[tuple[str, Exception]] = []
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        try:
            entry.load()(folder, quiet=quiet)
        except Exception as error:  # noqa: BLE001 - reporters are plug-ins: one must not cost the others their report
            failures.append((entry.name, error))
    if failures:
        what = "; ".join(f"{name}: {type(error).__name__}: {error}" for name, error in failures)
        raise ReporterError(f"no report could be made of {folder} ({what})", hint=hint) from failures[0][1]
