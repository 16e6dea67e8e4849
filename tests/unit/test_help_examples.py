"""What `--help` shows as an example can be typed: its options are there, its files are there, and simulations hold."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from harness.cli import cli, run_cli

ROOT = Path(__file__).parents[2]
HOSTS = (*(f"node{number}" for number in range(1, 5)), *(f"node{number:02}" for number in range(1, 21)))
"""Of the inventory in the examples."""


def commands(group: click.Command, name: str = "r2cc") -> Iterator[tuple[str, click.Command]]:
    yield name, group
    if isinstance(group, click.Group):
        context = click.Context(group)
        for word in group.list_commands(context):
            inner = group.get_command(context, word)
            assert inner is not None
            yield from commands(inner, f"{name} {word}")


def examples() -> list[str]:
    texts = [f"{each.help or ''}\n{each.epilog or ''}" for _, each in commands(cli)]
    lines = [line.strip() for text in texts for line in text.splitlines()]
    return sorted(
        {re.split(r"\s{3,}| #| > | && ", line)[0] for line in lines if line.startswith("r2cc ") and "PATH" not in line}
    )


def parsed(words: list[str]) -> None:
    """As click reads it, without running it: UsageError for what it does not know."""
    command: click.Command = cli
    context: click.Context | None = None
    while True:
        context = command.make_context(words[0], words[1:], parent=context, resilient_parsing=False)
        if not isinstance(command, click.Group):
            return
        words = [*context._protected_args, *context.args]
        if not words and command.invoke_without_command:
            return
        found = command.get_command(context, words[0])
        assert found is not None, words
        command = found


@pytest.mark.parametrize("line", examples())
def test_it_can_be_typed(line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files of ours are there; those that stand for the reader's own are made here."""
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    for name in ("manifest.xml", "hosts", "gate.json", "all_reduce-1.json", "whole.json", "one-nic-less.json", "log"):
        (tmp_path / name).touch()
    (tmp_path / "dumps").mkdir()
    (tmp_path / "topology.yaml").symlink_to(ROOT / "docs" / "examples" / "topology.yaml")
    hosts = "".join(f"  - {{name: {name}, address: 192.0.2.1, nics: {{data: [eth1]}}}}\n" for name in HOSTS)
    (tmp_path / "cluster.yaml").write_text(f"schema: 1\nhosts:\n{hosts}")
    inside = tmp_path / "here"
    inside.mkdir()
    (tmp_path / "main").mkdir()
    monkeypatch.chdir(tmp_path)
    try:
        parsed(shlex.split(line))
    except click.BadParameter as error:
        assert "does not exist" in error.message and "experiments/" not in error.message, error.message
    for file in re.findall(r"experiments/[\w./-]+", line):
        assert (ROOT / file).exists(), file


NEEDY = [
    (name, each) for name, each in commands(cli) if any(isinstance(p, click.Option) and p.required for p in each.params)
]


@pytest.mark.parametrize(("name", "command"), NEEDY, ids=[name for name, _ in NEEDY])
def test_an_option_that_is_needed_is_asked_for(name: str, command: click.Command) -> None:
    """By its name, not by a message about `None`: of `r2cc panic`, somebody types it in a hurry."""
    for option in command.params:
        if isinstance(option, click.Option) and option.required:
            context = click.Context(command, info_name=name)
            with pytest.raises(click.MissingParameter):
                option.handle_parse_result(context, {}, [])


def test_there_are_many() -> None:
    assert len(examples()) > 60


@pytest.mark.parametrize(
    "line", [line for line in examples() if line.startswith("r2cc sim run") and "job_30_days" not in line]
)
@pytest.mark.build
def test_a_simulation_of_an_example_holds(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = [word for word in shlex.split(line)[1:] if word != "--json"]
    assert run_cli([*words, "--quiet", "--out", str(tmp_path / "runs")]) == 0


def test_a_trace_that_was_written_here_is_found_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(ROOT / "experiments" / "sim" / "job_30_days.yaml")
    monkeypatch.chdir(tmp_path)
    assert run_cli(["sim", "faults", file, "--out", "trace.jsonl"]) == 0
    for setting in ("faults={trace: trace.jsonl}", "faults.trace=trace.jsonl"):
        more = ["--set", "faults={}"] if setting.startswith("faults.") else []
        assert run_cli(["sim", "run", file, *more, "--set", setting, "--dry-run"]) == 0
