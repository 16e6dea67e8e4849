"""Which line of a file is which in another version of it: by git's comparison of the whole files, without white space.

A patch's own context, a line or two, fits many places of a file of thousands. Where whole files are compared, a hunk
cannot land in another function that looks alike.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.errors import SourceError
from harness.hosts import LocalHost

CHANGE = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
TIMEOUT_S = 60.0


def aligned(before: Sequence[str], after: Sequence[str]) -> list[int | None]:
    """For each line of `before` its line in `after`, both from 0; None where it was changed or removed."""
    where: list[int | None] = []
    there = 0
    for start, count, new_start, new_count in _changes(before, after):
        equal = start - len(where)
        where += range(there, there + equal)
        where += [None] * count
        there = new_start + new_count
    where += range(there, there + len(before) - len(where))
    return where


def _changes(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """(start, count, start there, count there), from 0; an empty side starts where lines would be inserted."""
    with tempfile.TemporaryDirectory(prefix="r2cc-port-") as folder:
        old, new = Path(folder, "old"), Path(folder, "new")
        old.write_text("".join(f"{line}\n" for line in before))
        new.write_text("".join(f"{line}\n" for line in after))
        options = ["--no-index", "-U0", "-w", "--patience", "--no-color", "--no-ext-diff", "--text"]
        env = {"GIT_CEILING_DIRECTORIES": folder, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        argv = ["git", "-C", folder, "diff", *options, "old", "new"]
        result = LocalHost().run(argv, env=env, timeout_s=TIMEOUT_S, check=False)
    if result.exit_code not in (0, 1):
        raise SourceError(f"git cannot compare files: {result.stderr.strip()}", "is git installed and recent?")
    return [_change(*match.groups()) for match in CHANGE.finditer(result.stdout)]


def _change(start: str, count: str | None, new_start: str, new_count: str | None) -> tuple[int, int, int, int]:
    lines, new_lines = int(count or 1), int(new_count or 1)
    return int(start) - (lines > 0), lines, int(new_start) - (new_lines > 0), new_lines
