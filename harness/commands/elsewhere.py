"""Where a command is that was looked for in the wrong place. Loads all commands: for an error's hint alone."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

import click

MOST = 3


def hint(error: click.ClickException, root: click.Group) -> str:
    """For a command that does not exist, where it is; empty where nothing like it is known."""
    name, context = getattr(error, "command_name", None), getattr(error, "ctx", None)  # click 8.4 and newer have both
    if name is None or context is None or not isinstance(context.command, click.Group):
        return ""
    known = [path for path in paths(root, click.Context(root, info_name="r2cc")) if path.split()[-1] == name]
    if not known and not getattr(error, "possibilities", None):  # which click shows itself
        near = get_close_matches(name, context.command.list_commands(context))
        known = [f"{context.command_path} {each}" for each in near]
    return ", or ".join(known[:MOST])


def paths(group: click.Group, context: click.Context) -> Iterator[str]:
    """The words of every command below a group."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        below = click.Context(command, context, info_name=name)
        yield below.command_path
        if isinstance(command, click.Group):
            yield from paths(command, below)
