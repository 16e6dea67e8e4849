"""What stands for a value on the command line: inventories, experiments."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from click.shell_completion import CompletionItem

Items = list[CompletionItem[str]]
MOST_FILES, MOST_DEPTH, READ_BYTES = 200, 3, 65536
PASSED_OVER = {"build", "runs", "nccl_fork", "node_modules", "tests"}


def inventories(_ctx: click.Context, incomplete: str) -> Items:
    """The beds, and files that have `hosts:`."""
    from harness.sites.inventory import without_a_file

    beds = [CompletionItem(name, help=what) for name, what in without_a_file(incomplete).items()]
    files = [CompletionItem(path) for path in _matching(b"hosts:", incomplete, not_this=b"nics: ")]
    return beds + files or [CompletionItem(incomplete, type="file")]


def yaml_with(key: bytes) -> Callable[[click.Context, click.Parameter, str], Items]:
    """A `shell_complete` of YAML files with a key at their top; where there are none, whatever the shell finds."""

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> Items:
        found = [CompletionItem(path) for path in _matching(key + b":", incomplete)]
        return found or [CompletionItem(incomplete, type="file")]

    return complete


def _matching(beginning: bytes, incomplete: str, not_this: bytes | None = None) -> list[str]:
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
        if _has(beginning, text) and not (not_this and _has(not_this, text)):
            found.append(shown)
    return sorted(found)


def _has(beginning: bytes, text: bytes) -> bool:
    """A line that begins so."""
    return b"\n" + beginning in b"\n" + text


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
