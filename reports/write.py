"""Writing a run's reports to files."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from harness.schemas import dumped
from reports.rundir import RunDir

FILES = {
    "html": "report.html",
    "md": "report.md",
    "json": "report.json",
    "csv": "figures.csv",
    "junit": "junit.xml",
}


def render(run: RunDir, kind: str, target: Path | None = None) -> str:
    """One report as text; `target` is the directory it will lie in, for its links to the raw files."""
    if kind == "html":
        from reports import html

        return html.render(run, _prefix(run.path, target))
    if kind == "md":
        from reports import markdown

        return markdown.render(run)
    if kind == "csv":
        from reports import csv_table

        return csv_table.render(run)
    if kind == "junit":
        from reports import junit

        return junit.render(run)
    return dumped("summary", run.summary, 2) + "\n"


def write(run: RunDir, kind: str, target: Path) -> Path:
    """Write one report atomically (a reader, or a full disk, never leaves half a page) and return its path."""
    target.mkdir(parents=True, exist_ok=True)
    path = target / FILES[kind]
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(render(run, kind, target), encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _prefix(run_path: Path, target: Path | None) -> str:
    if target is None or target.resolve() == run_path.resolve():
        return ""
    return quote(os.path.relpath(run_path.resolve(), target.resolve())) + "/"
