"""Where reports lie: written whole or not at all, with links back to their run."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote


def write_whole(path: Path, text: str) -> Path:
    """A reader, or a full disk, never leaves half a page. Makes the folder; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def link_prefix(run_path: Path, target: Path | None) -> str:
    """What a report in `target` puts before the names of the run's files; nothing when it lies in the run."""
    if target is None or target.resolve() == run_path.resolve():
        return ""
    return quote(os.path.relpath(run_path.resolve(), target.resolve())) + "/"
