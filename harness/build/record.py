"""build.json, which is written last: its presence says that a build is complete."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from harness.schemas import dumped
from harness.schemas.form import Limits, form, left_out

FILE = "build.json"
Hash = Annotated[str, Limits(pattern=r"^[0-9a-f]{64}$")]


@form("build_json", "build.json of what was built, written last")
@dataclass(frozen=True, kw_only=True)
class Record:
    """What was built of what: files by name with their SHA-256."""

    build_id: str | None = left_out()
    inputs: Mapping[str, Any]
    """everything that the result depends on"""
    outputs: Mapping[str, Hash] | None = left_out()
    library: Mapping[str, Hash] | None = left_out()
    programs: Mapping[str, Hash] | None = left_out()

    def write(self, folder: Path) -> None:
        part = folder / f"{FILE}.part"
        part.write_text(dumped(self, 1) + "\n")
        part.replace(folder / FILE)


def known(folder: Path) -> dict[str, Any]:
    """What was built there. OSError or ValueError when nothing was."""
    found: dict[str, Any] = json.loads((folder / FILE).read_text())
    return found
