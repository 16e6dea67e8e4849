"""Writing a run's reports to files."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from harness.files.writing import write_whole
from harness.schemas import dumped
from reports.formats.files import link_prefix
from reports.reading.rundir import RunDir

FILES = {
    "html": "report.html",
    "md": "report.md",
    "json": "report.json",
    "csv": "figures.csv",
    "junit": "junit.xml",
}
AFTER_RUN = ("md", "html")


def render(run: RunDir, kind: str, target: Path | None = None) -> str:
    """One report as text; `target` is the directory it will lie in, for its links to the raw files."""
    if kind == "html":
        from reports.formats import html

        return html.render(run, link_prefix(run.path, target))
    if kind == "md":
        from reports.formats import markdown

        return markdown.render(run)
    if kind == "csv":
        from reports.formats import csv as csv_table

        return csv_table.render(run)
    if kind == "junit":
        from reports.formats import junit

        return junit.render(run)
    return dumped(run.summary, 2) + "\n"


def show(run: RunDir, file: TextIO) -> None:
    """On a terminal."""
    from reports.formats import terminal

    terminal.show(run, file)


def write(run: RunDir, kind: str, target: Path) -> Path:
    """Whole or not at all; returns its path."""
    return write_whole(target / FILES[kind], render(run, kind, target))
