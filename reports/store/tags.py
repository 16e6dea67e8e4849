"""A run's tags: a file of its directory."""

from __future__ import annotations

from pathlib import Path

from harness.files.writing import write_whole
from harness.schemas import dumped_as
from reports.store.folders import TAGS


def read_tags(folder: Path) -> tuple[str, ...]:
    """Unreadable where there are some, and cannot be read."""
    from reports.store import shapes

    found = shapes.read_if_there(folder / TAGS, shapes.Tags)
    return tuple(sorted(set(found.tags))) if found is not None else ()


def write_tags(folder: Path, tags: set[str]) -> None:
    """Whole or not at all."""
    write_whole(folder / TAGS, dumped_as("tags", {"schema": 1, "tags": sorted(tags)}) + "\n")
