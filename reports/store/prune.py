"""Which run directories may go, and removing them. What carries a tag stays; nothing that is no run is touched."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from harness.errors import InfraError
from harness.schemas.form import form
from reports.store import staging
from reports.store.entry import UNFINISHED, UNREADABLE, Entry

RECENT = timedelta(hours=1)
"""An unfinished run that is younger may still be running."""
PREFIX = ".pruned-"


@form("runs_pruned", "r2cc runs prune")
@dataclass(frozen=True)
class Pruned:
    """What was removed, or would be."""

    dry_run: bool
    runs: Sequence[str]
    """ids"""


def chosen(runs: Sequence[Entry], now: datetime, *, keep: int | None, older_than: timedelta | None) -> list[Entry]:
    """Of `runs`, newest first: those beyond the newest `keep` of each experiment, if they are older than that.

    One that cannot be read is none of the newest, and goes by its age alone.
    """
    kept: dict[str, int] = {}
    found = []
    for run in runs:
        readable = run.verdict != UNREADABLE
        kept[run.experiment] = kept.get(run.experiment, 0) + readable
        age = now - run.made if run.made else None
        enough = (keep is None or kept[run.experiment] > keep) if readable else older_than is not None
        old = older_than is None or (age is not None and age > older_than)
        running = run.verdict in (UNFINISHED, UNREADABLE) and (age is None or age < RECENT)
        if enough and old and not run.tags and not running:
            found.append(run)
    return found


def remove(folder: Path, run: Entry) -> None:
    """Renamed first: no reader sees half a run, and one whose removal was cut short is removed with the next.

    InfraError when it cannot be removed.
    """
    doomed = folder / f"{PREFIX}{secrets.token_hex(8)}"
    try:
        (folder / run.folder).rename(doomed)
        _remove(doomed)
    except OSError as error:
        raise InfraError(f"cannot remove {folder / run.id}: {error.strerror}", "check the folder's owner") from error


def _remove(doomed: Path) -> None:
    """Of a link to a run elsewhere, the link."""
    if doomed.is_symlink():
        doomed.unlink()
    else:
        shutil.rmtree(doomed)


def sweep(folder: Path) -> None:
    """What removals and imports that were cut short have left."""
    staging.clear(folder)
    for left in folder.glob(f"{PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)
