"""Where reports lie, and their links back to their run."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote


def link_prefix(run_path: Path, target: Path | None) -> str:
    """What a report in `target` puts before the names of the run's files; nothing when it lies in the run."""
    if target is None or target.resolve() == run_path.resolve():
        return ""
    return quote(os.fsencode(os.path.relpath(run_path.resolve(), target.resolve()))) + "/"
