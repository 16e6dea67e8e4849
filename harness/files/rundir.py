"""The run directory: made once, never reused, readable at any moment of the run."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.errors import R2ccError, UsageError
from harness.files.writing import FULL, failed, look_at, try_file, write_whole
from harness.schemas import dumped

MOST_OF_A_SECOND = 100_000


@dataclass(frozen=True)
class RunDir:
    """runs/<UTC time>-<experiment>/ and the names of what lies in it."""

    path: Path

    @property
    def journal(self) -> Path:
        return self.path / "journal.jsonl"

    @property
    def raw(self) -> Path:
        return self.path / "raw"

    def write_text(self, name: str, text: str) -> None:
        """Whole or not at all: a reader never sees half a file."""
        write_whole(self.path / name, text)

    def write_json(self, name: str, value: object) -> None:
        """An instance of a class that is marked as a `form`."""
        self.write_text(name, dumped(value, 1) + "\n")

    def discard(self) -> None:
        """Of a run that never began."""
        shutil.rmtree(self.path, ignore_errors=True)

    def shown(self) -> str:
        """The path as the user would type it: relative to the current directory when inside of it."""
        relative = os.path.relpath(self.path)
        return str(self.path) if relative.startswith("..") else relative


def check(base: Path, *, dry: bool = False) -> None:
    """Before minutes of building: the errors of `create` and of a full disk. Leaves nothing; `dry`: writes nothing,
    and so does not see that the disk is full."""
    try:
        if dry:
            look_at(base)
        else:
            try_file(base, "r2cc")
    except OSError as error:
        raise _failed(base, error, "give another --out") from error


def create(base: Path, experiment: str, now: datetime | None = None, hint: str = "give another --out") -> RunDir:
    """Makes a fresh directory under `base`; UsageError, with `hint`, when that is not possible, InfraError when the
    disk is full."""
    stamp = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    for serial in range(MOST_OF_A_SECOND):
        path = base / (f"{stamp}-{experiment}" + (f"-{serial}" if serial else ""))
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            if not path.is_dir():
                raise UsageError(f"{path} is a file", hint) from None
            continue
        except OSError as error:
            raise _failed(path, error, hint) from error
        return RunDir(path)
    raise UsageError(f"there are {MOST_OF_A_SECOND} run directories of this second in {base}", hint)


def _failed(path: Path, error: OSError, hint: str) -> R2ccError:
    if error.errno in FULL:
        return failed(path, error)
    return UsageError(f"cannot make the run directory {path}: {error.strerror}", hint)
