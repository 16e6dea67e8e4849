"""The workflow templates: every command in them is one that there is, with options that it has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from harness.cli import cli

ROOT = Path(__file__).parents[2]
TEMPLATES = sorted((ROOT / "ci" / "templates").glob("*.yml"))


def _commands(value: Any) -> Iterator[str]:
    """Every shell line of a workflow, whatever job it is in."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key in ("run", "script", "after_script"):
                yield from each.splitlines() if isinstance(each, str) else each
            else:
                yield from _commands(each)
    elif isinstance(value, list):
        for each in value:
            yield from _commands(each)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_commands_and_options_exist(template: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = list(_commands(yaml.safe_load(template.read_text())))
    ours = [line for line in lines if "r2cc " in line]
    assert len(ours) >= 6
    (tmp_path / "gate.json").write_text("{}")
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    (tmp_path / "here").mkdir()
    (tmp_path / "before").mkdir()
    monkeypatch.chdir(tmp_path)
    for line in ours:
        words = shlex.split(line.partition(" >")[0].replace("../before", "before"))
        assert words[0].endswith(".venv/bin/r2cc"), line
        context: click.Context = click.Context(cli)
        command: click.Command = cli
        rest = words[1:]
        while isinstance(command, click.Group):
            name, found, rest = command.resolve_command(context, rest)
            assert found is not None, line
            command, context = found, click.Context(found, parent=context, info_name=name)
        command.make_context(command.name, rest, parent=context.parent)  # raises for what it does not know


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_make_targets_exist(template: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    asked = [
        shlex.split(line)[-1] for line in _commands(yaml.safe_load(template.read_text())) if line.startswith("make")
    ]
    assert asked
    assert set(asked) <= targets


def test_a_wrong_option_would_be_seen() -> None:
    name, command, rest = cli.resolve_command(click.Context(cli), ["serve", "--no-such-option"])
    assert command is not None
    with pytest.raises(click.UsageError):
        command.make_context(name, rest)
