"""How a library is put under a program with LD_PRELOAD, which ends a path at a space or a colon.

A path with a space is preloaded by its name alone, and its folder goes before LD_LIBRARY_PATH, which ends a path at
colons and semicolons only (ld.so(8)).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.errors import UsageError

BOTH = 'export LD_LIBRARY_PATH="$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" LD_PRELOAD="$2"; shift 2; exec "$@"'
"""A fixed script: folder, name, and the program."""


def variables(libraries: Iterable[Path], inherited: Mapping[str, str]) -> dict[str, str]:
    """What the environment of a program needs; `inherited`: what it has, and keeps behind ours. UsageError for a path
    that cannot be preloaded."""
    every = [*libraries]
    names = [library.name if _spaced(library) else str(library) for library in every]
    folders = [str(library.parent) for library in every if _spaced(library)]
    found = {"LD_PRELOAD": _joined(names, inherited.get("LD_PRELOAD"))}
    return {**found, "LD_LIBRARY_PATH": _joined(folders, inherited.get("LD_LIBRARY_PATH"))} if folders else found


def words(library: Path) -> list[str]:
    """What stands before a program's command line, on whatever host. UsageError as above."""
    if _spaced(library):
        return ["sh", "-c", BOTH, "r2cc", str(library.parent), library.name]
    return ["env", f"LD_PRELOAD={library}"]


def _joined(first: Iterable[str], rest: str | None) -> str:
    return ":".join([*first, *([rest] if rest else [])])


def _spaced(library: Path) -> bool:
    """Whether it has to go by its name alone."""
    if ":" in str(library) or (" " in str(library) and ";" in str(library.parent)):
        raise UsageError(f"{library} cannot be preloaded: LD_PRELOAD ends at its colon", "rename the folder")
    return " " in str(library)
