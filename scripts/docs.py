"""Writes the pages of docs/reference that follow from the code: `make docs`. A test says when one is stale."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from chaos.faults import page
from harness.cli import cli

ROOT = Path(__file__).parents[1]
MADE = "<!-- Made by `make docs`: change what it is made from, not this file. -->"
TABLES = ("<!-- Made by `make docs`, from the classes: -->", "<!-- (so far) -->")
EXAMPLE = re.compile(rf"r2cc ({'|'.join(cli.list_commands(click.Context(cli)))})( |$)|(salloc|eval|ssh|[A-Z_]+=\S+) ")


def pages() -> Mapping[Path, str]:
    """Every generated page by its path, with the text it should have."""
    reference = ROOT / "docs" / "reference"
    return {
        reference / "commands.md": commands_page(),
        reference / "experiment-keys.md": keys_page(),
        reference / "faults.md": with_tables(reference / "faults.md", page.markdown()),
    }


def with_tables(path: Path, tables: str) -> str:
    """A page that is written by hand but for its tables."""
    begin, end = map(re.escape, TABLES)
    text, found = re.subn(
        rf"(?s)({begin}\n).*?({end})", lambda part: f"{part[1]}\n{tables}\n{part[2]}", path.read_text()
    )
    if not found:
        raise ValueError(f"{path} has no place for its tables: {' ... '.join(TABLES)}")
    return text


def commands_page() -> str:
    parts = [command_text(name, command) for name, command in commands(cli, "r2cc")]
    intro = "What `r2cc COMMAND --help` prints, for all commands. [Exit codes](exit-codes.md) are alike everywhere."
    return "\n\n".join(["# Commands", MADE, intro, *parts]) + "\n"


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """The commands that do something, in the order of their names; groups only lead to them."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command)
    for word in command.list_commands(context):
        inner = command.get_command(context, word)
        if inner is not None and not inner.hidden:
            yield from commands(inner, f"{name} {word}")


def command_text(name: str, command: click.Command) -> str:
    words, examples = said(command)
    context = click.Context(command, info_name=name, show_default=True)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    parts = [f"## {name}", f"`{usage}`", *words, option_table(command, context)]
    if examples:
        parts.append("\n".join(["```", *examples, "```"]))
    return "\n\n".join(part for part in parts if part)


def said(command: click.Command) -> tuple[list[str], list[str]]:
    """The paragraphs of a command's help, and its examples."""
    text = "\n\n".join(inspect.cleandoc(part) for part in (command.help, command.epilog) if part)
    words: list[list[str]] = [[]]
    examples: list[str] = []
    for line in (line.strip() for line in text.replace("\b", "").splitlines()):
        if line in ("", "Example:", "Examples:"):
            words.append([])
        elif EXAMPLE.match(line):
            examples.append(re.sub(r"\s{3,}(?=[^#\s])", "   # ", line, count=1))
        elif line.startswith("#") and examples:
            examples[-1] += f"   {line}"
        else:
            words[-1].append(line)
    return [" ".join(lines) for lines in words if lines], examples


def option_table(command: click.Command, context: click.Context) -> str:
    rows = [option_row(each, context) for each in command.params if isinstance(each, click.Option) and not each.hidden]
    return "\n".join(["| option | what |", "|---|---|", *rows]) if rows else ""


def option_row(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    left, right = record if record else ("", "")
    return f"| `{cell(left)}` | {cell(right)} |"


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def keys_page() -> str:
    """The keys of an experiment file, from its schema."""
    schema = json.loads((ROOT / "harness/schemas/experiment.schema.json").read_text())
    parts = [keys_of("The file", schema)]
    parts += [keys_of(name, part) for name, part in sorted(schema["$defs"].items()) if part.get("properties")]
    intro = (
        "Every key, its type, limits and default. What they mean: [the file](experiment.md), [faults](faults.md). Of "
        "workloads: [the host bench](../internals/bench.md), whose options have the same names, [on GPUs]"
        "(../howto/gpus.md#2-workloads-under-faults), [your own program and nccl-tests](../howto/own-job.md), [servers]"
        "(../howto/inference.md)."
    )
    return "\n\n".join(["# Keys of an experiment file", MADE, intro, *parts]) + "\n"


def keys_of(title: str, schema: Mapping[str, Any]) -> str:
    needed = schema.get("required", [])
    rows = [
        f"| `{name}` | {cell(type_of(value))} | {default_of(value, name in needed)} |"
        for name, value in schema["properties"].items()
    ]
    head = [f"## {title}"]
    if "description" in schema and title != "The file":
        head.append(" ".join(schema["description"].split()))
    return "\n\n".join([*head, "\n".join(["| key | type | default |", "|---|---|---|", *rows])])


def type_of(value: Mapping[str, Any]) -> str:
    if "anyOf" in value:
        return " or ".join(type_of(each) for each in value["anyOf"] if each.get("type") != "null")
    if "$ref" in value:
        name = value["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "const" in value or "enum" in value:
        return ", ".join(f"`{each}`" for each in value.get("enum", [value.get("const")]))
    if value.get("type") == "array":
        return f"list of {type_of(value.get('items', {}))}"
    return f"{value.get('type', 'mapping')}{limits_of(value)}"


def limits_of(value: Mapping[str, Any]) -> str:
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<", "multipleOf": "n x"}
    limits = [f"{sign} {value[key]}" for key, sign in signs.items() if key in value]
    if "pattern" in value:
        limits.append(f"`{value['pattern']}`")
    return f", {', '.join(limits)}" if limits else ""


def default_of(value: Mapping[str, Any], needed: bool) -> str:
    if needed:
        return "required"
    default = value.get("default")
    return "" if default is None or isinstance(default, dict) else f"`{json.dumps(default)}`"


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
        print(path.relative_to(ROOT))
