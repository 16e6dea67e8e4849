"""A run's figures as CSV, one a line: for spreadsheets and pandas."""

from __future__ import annotations

import csv
import io

from reports.reading.rundir import RunDir
from reports.store.entries import figures

HEADER = ("experiment", "arm", "run", "name", "unit", "size_bytes", "value", "bound", "cut")


def render(run: RunDir) -> str:
    """The figures that the store knows of the run; `run` is empty for those of a whole arm, `cut` is true for those of
    a repeat that was interrupted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for figure in figures(run.summary):
        repeat = "" if figure.repeat < 0 else figure.repeat
        row = [run.name, figure.arm, repeat, figure.name, figure.unit, figure.size_bytes, figure.value, figure.bound]
        writer.writerow([*row, "true" if figure.cut else ""])
    return out.getvalue()
