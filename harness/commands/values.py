"""What stands for a value on the command line: inventories, experiments. Only imported when a shell asks for it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click
from click.shell_completion import CompletionItem

Items = list[CompletionItem[str]]
EXPERIMENT, CAMPAIGN, INVENTORY = (re.compile(rf"(?m)^{key}:".encode()) for key in ("workload", "cells", "hosts"))
FILES = {"run": EXPERIMENT, "validate": EXPERIMENT, "campaign": CAMPAIGN}
"""What the FILE of the commands of `r2cc chaos` is."""
MOST_FILES, MOST_DEPTH, READ_BYTES = 200, 3, 65536
PASSED_OVER = {"build", "runs", "nccl_fork", "node_modules", "tests"}


def enrich(command: click.Command, inside: str = "") -> None:
    """Gives parameters that have a meaning here, in this command and those below it, something to complete."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if (below := command.get_command(context, name)) is not None:
                enrich(below, command.name or "")
    for param in command.params:
        if inside == "chaos" and param.name in ("file", "files") and command.name in FILES:
            setattr(param, "shell_complete", partial(yaml_files, FILES[command.name]))  # noqa: B010


def inventories(_ctx: click.Context, incomplete: str) -> Items:
    """The beds, and files that have `hosts:`."""
    from harness.sites.inventory import without_a_file

    beds = [CompletionItem(name, help=what) for name, what in without_a_file(incomplete).items()]
    files = [CompletionItem(path) for path in _matching(INVENTORY, incomplete, not_this=b"nics: ")]
    return beds + files or [CompletionItem(incomplete, type="file")]


def yaml_files(kind: re.Pattern[bytes], _ctx: click.Context, incomplete: str) -> Items:
    """YAML files of a kind; where there are none, whatever the shell finds."""
    return [CompletionItem(path) for path in _matching(kind, incomplete)] or [CompletionItem(incomplete, type="file")]


def _matching(kind: re.Pattern[bytes], incomplete: str, not_this: bytes | None = None) -> list[str]:
    """As one would type them. Names with what would need quotes are left out."""
    found: list[str] = []
    for shown in _yaml_below(incomplete):
        if len(found) == MOST_FILES:
            break
        if re.search(r"[\s,'\"\\]", shown):
            continue
        try:
            with Path(shown).open("rb") as file:
                text = file.read(READ_BYTES)
        except OSError:
            continue
        if kind.search(text) and (not_this is None or not re.search(rb"(?m)^" + not_this, text)):
            found.append(shown)
    return sorted(found)


def _yaml_below(incomplete: str) -> Iterator[str]:
    """YAML files that begin so, here or a few folders down."""
    base = incomplete[: incomplete.rfind("/") + 1]
    for folder, folders, files in os.walk(base or "."):
        inner = Path(folder).relative_to(base or ".")
        depth = len(inner.parts)
        folders[:] = sorted(name for name in folders if depth < MOST_DEPTH and _entered(name, inner, base, incomplete))
        for name in sorted(files):
            shown = f"{base}{inner / name}"
            if name.endswith((".yaml", ".yml")) and shown.startswith(incomplete):
                yield shown


def _entered(name: str, inner: Path, base: str, incomplete: str) -> bool:
    if name.startswith(".") or (not base and name in PASSED_OVER):
        return False
    return bool(inner.parts) or f"{base}{name}".startswith(incomplete)
