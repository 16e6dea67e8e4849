"""Tables of runs as files for other programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError, extra_hint
from harness.files.writing import write_whole
from harness.schemas.form import form
from reports.frames.faults import faults
from reports.frames.iterations import iterations
from reports.frames.samples import gpus, nics
from reports.frames.summary import summary
from reports.reading.rundir import RunDir

if TYPE_CHECKING:
    from pandas import DataFrame

TABLES: Mapping[str, Callable[[RunDir], DataFrame]] = {
    "iterations": iterations,
    "samples": nics,
    "gpus": gpus,
    "faults": faults,
    "summary": summary,
}


@form("runs_exported", "r2cc runs export")
@dataclass(frozen=True)
class Exported:
    """What was written."""

    files: Sequence[str]


def check(form: str) -> None:
    """Before runs are read. UsageError where what writes that format is not installed."""
    if form != "parquet":
        return
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise UsageError("parquet needs pyarrow, which is not installed", extra_hint("parquet")) from error


def write(run: RunDir, name: str, tables: Sequence[str], form: str, folder: Path) -> list[Path]:
    """`<folder>/<name>/<table>.<form>` for each table of a run; each row begins with `name` in the column `run`.

    Files are written whole or not at all. UsageError when they cannot be, InfraError when the disk is full.
    """
    return [_write(TABLES[table](run), name, form, folder / name / f"{table}.{form}") for table in tables]


def _write(frame: DataFrame, name: str, form: str, path: Path) -> Path:
    frame.insert(0, "run", name)
    return write_whole(path, frame.to_parquet(index=False) if form == "parquet" else frame.to_csv(index=False))
