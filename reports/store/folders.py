"""Which directories of a store are runs, and when what is known of one last changed. Nothing is opened here."""

from __future__ import annotations

import os
from pathlib import Path

from reports.store.names import STAMP

SUMMARY, JOURNAL, TAGS, ENVIRONMENT = "summary.json", "journal.jsonl", "tags.json", "environment.json"
SIMULATION, SWEEP = "simulation.json", "sweep.json"
OF_THE_BEGINNING = {"experiment.yaml", ENVIRONMENT, TAGS, "raw", "cells", "trace.jsonl"}
"""What is in a run directory before the first of the files that only runs have."""
HIDDEN_FROM_US = 1
"""Of what is there and cannot be looked at."""


def is_run(folder: Path) -> bool:
    return changed_ns(str(folder)) is not None


def is_simulated(folder: Path) -> bool:
    """What `r2cc sim` makes, finished or not."""
    return any(os.path.lexists(folder / name) for name in (SIMULATION, SWEEP))


def changed_ns(folder: str) -> int | None:
    """When what the index knows of a run last changed, 0 while it has no result; None for what is no run.

    A run that still writes its journal is read when it has ended. Three to seven system calls: it is asked of every
    run. Times are those of the change of a file's state, which no copy and no `touch` sets back.
    """
    result = _changed_ns(f"{folder}/{SUMMARY}") or _changed_ns(f"{folder}/{SIMULATION}")
    if result is None and not _begun(folder):
        return None
    return max(result or 0, *(_changed_ns(f"{folder}/{name}") or 0 for name in (TAGS, ENVIRONMENT)))


def _begun(folder: str) -> bool:
    if any(_changed_ns(f"{folder}/{name}") is not None for name in (JOURNAL, SWEEP)):
        return True
    return STAMP.match(os.path.basename(folder)) is not None and _holds_only_a_beginning(folder)  # noqa: PTH119


def _holds_only_a_beginning(folder: str) -> bool:
    """True also of what cannot be looked into: its name says that it is a run."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 (a Path of each of 10,000 runs takes longer than all the rest)
    except FileNotFoundError:
        return Path(folder).is_symlink()
    except NotADirectoryError:
        return False
    except OSError:
        return True
    return all(name.startswith(".") or name in OF_THE_BEGINNING for name in names)


def _changed_ns(path: str) -> int | None:
    """None for what is not there; a link is not followed."""
    try:
        return os.lstat(path).st_ctime_ns
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return HIDDEN_FROM_US if STAMP.match(os.path.basename(os.path.dirname(path))) else None  # noqa: PTH119, PTH120
