"""Options of the commands that read status files and write control files. Imports little: for `r2cc --help`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from harness.commands.options import FilePath
from harness.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


def status_option(command: F) -> F:
    """`--status`: the folder, or None; `folder_of` insists."""
    return click.option(
        "--status", type=FilePath(), envvar="R2CC_STATUS_DIR", show_envvar=True, metavar="DIR",
        help="The folder that jobs write their status files to.",
    )(command)  # fmt: skip


def control_option(command: F) -> F:
    return click.option(
        "--control", type=FilePath(), envvar="R2CC_CONTROL_DIR", show_envvar=True, metavar="DIR",
        help="The folder that jobs watch.",
    )(command)  # fmt: skip


def folder_of(given: Path | None, option: str = "--status", variable: str = "R2CC_STATUS_DIR") -> Path:
    """UsageError where none is named."""
    if given is None:
        raise UsageError(f"no folder is named: {option} DIR, or {variable}", f"jobs need the same {variable}")
    return given
