"""All commands at once: every option says what it does in a sentence, every command has examples, and options that
several commands have are the same everywhere."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import click
import pytest

from harness.cli import cli
from harness.commands.options import Size, quiet_option

EXAMPLES_NEEDED = 2
EXAMPLE = re.compile(r"(r2cc |eval |ssh |salloc |LD_)")
SENTENCE = re.compile(r"[A-Z`].*\.( \[.*\])?", re.DOTALL)
ANOTHER = {("runs import", "--arm")}
"""Of the same name, of another meaning."""


def commands(group: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    yield name.strip(), group
    if isinstance(group, click.Group):
        context = click.Context(group)
        for word in group.list_commands(context):
            inner = group.get_command(context, word)
            assert inner is not None
            yield from commands(inner, f"{name} {word}")


ALL = dict(commands(cli))


def options(command: click.Command) -> list[click.Option]:
    return [param for param in command.params if isinstance(param, click.Option) and not param.hidden]


def having(flag: str) -> dict[str, click.Option]:
    """The option of that name, by command."""
    return {
        name: option
        for name, command in ALL.items()
        for option in options(command)
        if flag in option.opts and (name, flag) not in ANOTHER
    }


@pytest.mark.parametrize("name", ALL)
def test_options_are_explained_in_a_sentence(name: str) -> None:
    for option in options(ALL[name]):
        text = option.help or ""
        assert SENTENCE.fullmatch(text) and len(text.split()) > 2, f"{name} {option.opts[0]}: {text!r}"


@pytest.mark.parametrize("name", ALL)
def test_commands_have_examples(name: str) -> None:
    """That they can be typed: test_help_examples.py."""
    text = f"{ALL[name].help or ''}\n{ALL[name].epilog or ''}"
    found = [line for line in text.splitlines() if EXAMPLE.match(line.strip())]
    assert len(found) >= EXAMPLES_NEEDED, f"r2cc {name}: {found}"


QUICK = {
    "chaos faults", "chaos validate", "ci report", "completion", "drain", "env", "fork refresh", "fork status",
    "health", "hosts list", "job-report", "k8s render agent", "k8s render jobset", "k8s render metrics",
    "k8s render mpijob", "k8s render trainjob", "lab down", "lab exec", "lab status", "metrics", "panic", "plan",
    "plan calibrate", "plugin-path", "results render", "run deepspeed", "run vllm bench", "run vllm serve", "undrain",
}  # fmt: skip
"""Commands without progress of their own. `harness.progress.show` fails a test in which one of them shows some."""
SILENT = {
    "ci report": "a document in the format that is asked for",
    "completion": "a script for a shell",
    "k8s render agent": "a manifest",
    "k8s render jobset": "a manifest",
    "k8s render metrics": "a manifest",
    "k8s render mpijob": "a manifest",
    "k8s render trainjob": "a manifest",
    "lab exec": "what the program itself prints",
    "metrics": "in the form that Prometheus reads",
    "plugin-path": "a path",
    "results render": "paths of the pages that it wrote",
    "run deepspeed": "what the program itself prints",
    "run vllm bench": "what the program itself prints",
    "run vllm serve": "what the program itself prints",
}
"""Commands without --json, and what they print instead."""
LEAVES = {
    name for name, command in ALL.items() if not isinstance(command, click.Group) or command.invoke_without_command
}


def test_every_command_that_shows_progress_can_be_quiet() -> None:
    assert LEAVES - having("--quiet").keys() == QUICK


def test_every_command_with_a_result_prints_json() -> None:
    assert LEAVES - having("--json").keys() == SILENT.keys()


def test_every_command_says_what_it_does() -> None:
    assert [name for name, command in ALL.items() if not command.get_short_help_str()] == []


def test_progress_heeds_quiet(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from harness import progress

    @click.command()
    @quiet_option(given=False)
    def waits() -> None:
        with progress.show("waiting"):
            shown.wait(limits_s.pop(0))

    shown, limits_s = threading.Event(), [0.5, 60.0]  # for what must not come, and for what must
    monkeypatch.setattr(progress, "FIRST_SIGN_S", 0.001)
    draw = progress.Step._line
    monkeypatch.setattr(progress.Step, "_line", lambda *words, **more: (draw(*words, **more), shown.set()))
    waits.main(["--quiet"], standalone_mode=False)
    assert capfd.readouterr().err == ""
    waits.main([], standalone_mode=False)
    assert "waiting" in capfd.readouterr().err


def test_progress_in_a_command_that_cannot_be_quiet_fails_a_test() -> None:
    def forgotten() -> None:
        from harness.progress import show

        show("waiting")

    root = click.Group(cli.name, commands={"forgotten": click.Command("forgotten", callback=forgotten)})
    with pytest.raises(AssertionError, match="`cli forgotten` shows progress"):
        root.main(["forgotten"], prog_name="cli", standalone_mode=False)


def test_json_is_a_flag() -> None:
    """What it prints has a schema: test_json_schemas.py."""
    assert len(having("--json")) > 30
    for name, option in having("--json").items():
        assert option.is_flag and option.name == "as_json", name


def test_quiet_is_a_flag_with_a_letter() -> None:
    for name, option in having("--quiet").items():
        assert option.is_flag and option.opts == ["-q", "--quiet"], name


def test_places_are_parsed_once() -> None:
    for name, option in having("--inventory").items():
        assert option.name == "site" and option.type.name == "inventory", name


def test_arms_have_both_names() -> None:
    assert {"chaos run", "chaos soak", "ci turns"} <= having("--arms").keys()
    assert having("--arms").keys() == having("--arm").keys()


def test_settings_are_key_and_value() -> None:
    assert {"chaos run", "sim run", "sim sweep", "run ddp"} <= having("--set").keys()
    for name, option in having("--set").items():
        assert option.multiple and option.metavar == "KEY=VALUE" and option.name == "settings", name


def test_a_seed_is_a_whole_number() -> None:
    for name, option in having("--seed").items():
        assert isinstance(option.type, click.IntRange) and option.type.min == 0, name


@pytest.mark.parametrize(("text", "size"), [("64M", 64 << 20), ("64MiB", 64 << 20), ("64MB", 64_000_000), ("8", 8)])
def test_sizes(text: str, size: int) -> None:
    assert Size().convert(text, None, None) == size


@pytest.mark.parametrize("text", ["", "x", "1.5", "-1", "3", "2K"])
def test_no_size_or_out_of_range(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Size(4, 1024).convert(text, None, None)


def test_sizes_are_read_as_sizes() -> None:
    for name, option in having("--bytes").items():
        assert isinstance(option.type, Size), name
