"""New runs of a store, made where nobody looks and put into their places whole, all of them or none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from harness.files import rundir
from harness.files.rundir import RunDir
from harness.files.scratch import scratch, sweep
from harness.files.writing import told

PREFIX = ".importing-"
HINT = "give another --store"


@dataclass
class Batch:
    """Runs that are being made; `made` are their directories in the store, once all are there."""

    folder: Path
    made: list[Path] = field(default_factory=list)
    _waiting: list[tuple[RunDir, str, datetime]] = field(default_factory=list)

    def begin(self, experiment: str, when: datetime) -> RunDir:
        """An empty directory for the next run, of that moment."""
        run = RunDir(self.folder / str(len(self._waiting)))
        run.path.mkdir()
        self._waiting.append((run, experiment, when))
        return run

    def place(self, store: Path) -> None:
        """Puts all into the store; when one fails, those before it are taken out again."""
        try:
            for run, experiment, when in self._waiting:
                self.made.append(_placed(store, run, experiment, when))
        except BaseException:
            for path in self.made:
                shutil.rmtree(path, ignore_errors=True)
            raise


@contextmanager
def batch(store: Path) -> Iterator[Batch]:
    """Placed at the end of the block. A kill before leaves nothing but a hidden folder, which the next one removes.

    UsageError where the store cannot be written, InfraError when the disk is full.
    """
    with told(store):
        store.mkdir(parents=True, exist_ok=True)
    with scratch(PREFIX, store) as folder, told(store):
        found = Batch(folder)
        yield found
        found.place(store)


def clear(store: Path) -> None:
    """What those who were killed have left."""
    sweep(PREFIX, store)


def _placed(store: Path, run: RunDir, experiment: str, when: datetime) -> Path:
    """The name is taken by an empty directory first, which nobody else can take, and which the whole one replaces."""
    target = rundir.create(store, experiment, when, HINT).path
    try:
        run.path.replace(target)
    except BaseException:
        target.rmdir()
        raise
    return target
