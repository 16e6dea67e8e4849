"""Names of run directories: the time in them, and the id that stands for one wherever it is shown or kept. Pure."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path

STAMP = re.compile(r"^(\d{8}T\d{6}Z)-(.+)$", re.DOTALL)
FIRST_YEAR = 1970
ESCAPED = re.compile(rb"\\(?:\\|x([0-9a-f]{2}))")


def id_of(name: str) -> str:
    r"""The name itself where all of it can be printed; else with `\\` for a backslash and `\xNN` for the bytes that
    cannot. Two names never have one id."""
    return name if name.isprintable() and "\\" not in name else "".join(map(_escaped, name))


def name_of(run: str) -> str:
    """The directory's name of an id."""
    return run if "\\" not in run else os.fsdecode(ESCAPED.sub(_byte, run.encode()))


def made_of(name: str) -> datetime | None:
    """When a run was begun, as its directory's name says; None where it says nothing. ValueError for no time at all."""
    stamp = STAMP.match(name)
    return datetime.strptime(stamp[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC) if stamp else None


def when_of(file: Path) -> datetime:
    """When a file was written; now, where its time is none that a name can hold."""
    try:
        found = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    except (ValueError, OverflowError):
        return datetime.now(UTC)
    return found if found.year >= FIRST_YEAR else datetime.now(UTC)


def experiment_of(name: str) -> str:
    """What the name says that was run."""
    stamp = STAMP.match(name)
    return id_of(stamp[2] if stamp else name)


def problem_of(name: str) -> str | None:
    """Why a directory of this name is no run of ours; None when it may be one."""
    try:
        name.encode()
        made_of(name)
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    except ValueError:
        return "its name begins with what is no time"
    return None if name.isprintable() else "its name holds control characters"


def _escaped(letter: str) -> str:
    if letter == "\\":
        return "\\\\"
    return letter if letter.isprintable() else "".join(f"\\x{byte:02x}" for byte in os.fsencode(letter))


def _byte(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 16)]) if found[1] else b"\\"
