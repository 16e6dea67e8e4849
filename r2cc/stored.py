"""A folder of run directories."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from r2cc.results import Run

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMNS = (
    "id",
    "made",
    "experiment",
    "verdict",
    "exit_code",
    "bed",
    "build_id",
    "fingerprint",
    "seed",
    "arms",
    "source",
    "tags",
    "path",
)


class Store:
    """A folder of run directories, as `r2cc runs` has it."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def __repr__(self) -> str:
        return f"<r2cc.Store {self.folder}>"

    def runs(self, *, experiment: str | None = None, verdict: str | None = None, tag: str | None = None) -> DataFrame:
        """All runs, newest first: id, made (UTC), experiment, verdict, exit_code, bed, build_id, fingerprint (of the
        machine), seed, arms, source, tags, path. `experiment` may have * and ?.

        UsageError when there is no such folder.
        """
        import pandas as pd

        from reports.store.store import Wanted, opened

        with opened(self.folder) as found:
            entries = found.runs(Wanted(experiment=experiment, verdict=verdict, tag=tag))
        rows = [{**vars(entry), "path": self.folder / entry.folder} for entry in entries]
        frame = pd.DataFrame(rows, columns=list(COLUMNS))
        frame["made"] = pd.to_datetime(frame["made"], utc=True)
        return frame.astype({"exit_code": "Int64", "seed": "Int64"})

    def open(self, run: str) -> Run:
        """The run whose id is `run` or begins with it, or that alone has this tag. UsageError else."""
        from reports.store.store import opened

        with opened(self.folder) as found:
            return Run(found.path_of(found.find(run)))


def store(folder: str | os.PathLike[str] = "runs") -> Store:
    """The store in a folder of run directories; nothing is read yet."""
    return Store(folder)
