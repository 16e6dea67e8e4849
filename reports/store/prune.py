"""Which run directories may go, and removing them. What carries a tag stays; nothing that is no run is touched."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from harness.errors import InfraError
from reports.store.entry import UNFINISHED, Entry

RECENT = timedelta(hours=1)
"""An unfinished run that is younger may still be running."""


def chosen(runs: Sequence[Entry], now: datetime, *, keep: int | None, older_than: timedelta | None) -> list[Entry]:
    """Of `runs`, newest first: those beyond the newest `keep` of each experiment, if they are older than that."""
    kept: dict[str, int] = {}
    found = []
    for run in runs:
        kept[run.experiment] = kept.get(run.experiment, 0) + 1
        age = now - run.made if run.made else None
        enough = keep is None or kept[run.experiment] > keep
        old = older_than is None or (age is not None and age > older_than)
        running = run.verdict == UNFINISHED and (age is None or age < RECENT)
        if enough and old and not run.tags and not running:
            found.append(run)
    return found


def remove(folder: Path, run: Entry) -> None:
    """Renamed first: no reader sees half a run, and one whose removal was cut short is removed with the next.

    InfraError when it cannot be removed.
    """
    doomed = folder / f".pruned-{run.id}"
    try:
        (folder / run.id).rename(doomed)
        shutil.rmtree(doomed)
    except OSError as error:
        raise InfraError(f"cannot remove {folder / run.id}: {error.strerror}", "check the folder's owner") from error


def sweep(folder: Path) -> None:
    """What removals that were cut short have left."""
    for left in folder.glob(".pruned-*"):
        shutil.rmtree(left, ignore_errors=True)
