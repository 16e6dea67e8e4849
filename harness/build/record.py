"""build.json, which is written last: its presence says that a build is complete. And what make cannot see by itself."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from harness.errors import BuildError
from harness.files.writing import write_whole
from harness.schemas import dumped
from harness.schemas.form import Limits, form, left_out

FILE, UNFINISHED = "build.json", "unfinished"
BUILD_ID_DIGITS = 16
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
        write_whole(folder / FILE, dumped(self, 1) + "\n")


def known(folder: Path) -> dict[str, Any]:
    """What was built there. OSError or ValueError when nothing was."""
    found: dict[str, Any] = json.loads((folder / FILE).read_text())
    return found


def is_current(folder: Path, inputs: Mapping[str, Any], key: str, paths: Iterable[Path]) -> bool:
    """True if build.json names the same inputs, and under `key` these files, which are still as make left them."""
    try:
        there = known(folder)
        return bool(there["inputs"] == inputs and there[key] == hashes(folder, paths))
    except (OSError, ValueError, KeyError, BuildError):
        return False


def hashes(folder: Path, paths: Iterable[Path]) -> dict[str, str]:
    """By the files' names. BuildError when make left one out."""
    try:
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    except FileNotFoundError as error:
        raise BuildError(f"make made no {error.filename}", f"see {folder / 'build.log'}") from error


def id_of(facts: Mapping[str, Any]) -> str:
    """Equal facts mean an equal result, so this names the result too."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:BUILD_ID_DIGITS]


def forget(folder: Path, part: str, recorded: str, tools: object) -> None:
    """Removes a folder of objects that other tools have made, or that a killed make left half written: make compares
    times of files, and sees neither. `recorded`: the file that says which tools."""
    file, text = folder / recorded, json.dumps(tools) + "\n"
    if not file.is_file() or file.read_text() != text or (folder / UNFINISHED).exists():
        shutil.rmtree(folder / part, ignore_errors=True)
        file.write_text(text)


@contextmanager
def unfinished(folder: Path) -> Iterator[None]:
    """Whoever is killed meanwhile leaves a mark, by which `forget` goes."""
    mark = folder / UNFINISHED
    mark.touch()
    try:
        yield
    finally:
        mark.unlink()
