"""benchmarks/README.md says of every file what it is for, and what it shows can be typed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
TEXT = (FOLDER / "README.md").read_text()
ROWS = re.findall(r"^\| `(\w+\.py)([^`]*)` \|(.*)\|$", TEXT, flags=re.M)
"""Program, options, and the other columns: figure, bound, time."""


@cache
def help_of(program: str) -> str:
    argv = [sys.executable, FOLDER / program, "--help"]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout


def test_every_file_is_named() -> None:
    missing = [file.name for file in FOLDER.glob("*.py") if f"`{file.name}" not in TEXT]
    assert missing == []
    assert len(ROWS) > 25


@pytest.mark.parametrize("row", ROWS, ids=[row[0] + row[1][:30] for row in ROWS])
def test_a_row_has_a_figure_a_bound_and_a_time(row: tuple[str, str, str]) -> None:
    columns = [column.strip() for column in row[2].split("|")]
    assert len(columns) == 3 and all(columns)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] + row[1][:30] for row in ROWS])
def test_a_command_has_the_options_that_it_shows(row: tuple[str, str, str]) -> None:
    text = help_of(row[0])
    options = [word for word in shlex.split(row[1]) if word.startswith("--")]
    assert [option for option in options if not re.search(rf"{option}\b", text)] == []
