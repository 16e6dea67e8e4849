"""A run's tags: a file of its directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from harness.files.writing import write_whole
from harness.schemas import dumped
from harness.schemas.form import Limits, form
from reports.store.folders import TAGS


@form("tags", "tags.json of a run directory")
@dataclass(frozen=True)
class Tags:
    """What a user calls a run."""

    tags: Annotated[Sequence[str], Limits(uniqueItems=True)]


def read_tags(folder: Path) -> tuple[str, ...]:
    """Unreadable where there are some, and cannot be read."""
    from reports.store import shapes

    found = shapes.read_if_there(folder / TAGS, shapes.Tags)
    return tuple(sorted(set(found.tags))) if found is not None else ()


def write_tags(folder: Path, tags: set[str]) -> None:
    """Whole or not at all."""
    write_whole(folder / TAGS, dumped(Tags(sorted(tags))) + "\n")
