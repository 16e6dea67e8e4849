"""What commands print and write: each has a schema that docs/reference/json.md names, and nothing passes it.

That what is emitted fits is seen in every test: tests/conftest.py sets CHECKED, and `dumped` then looks.
"""

from __future__ import annotations

import re
from pathlib import Path
from runpy import run_path

import click
import pytest
from json_page import PRINTED, READ, WRITTEN
from jsonschema import Draft202012Validator

from harness.cli import cli
from harness.errors import InputErrors
from harness.schemas import CHECKED, dumped, dumped_as, load, problems
from reports.store.tags import Tags

ROOT = Path(__file__).parents[2]
FILES = {path.name.removesuffix(".schema.json") for path in (ROOT / "harness" / "schemas").glob("*.schema.json")}
NAMED = {name for table in (PRINTED, WRITTEN, READ) for names in table.values() for name in names}
SOURCES = [path for layer in ("r2cc", "harness", "chaos", "reports", "ci") for path in (ROOT / layer).rglob("*.py")]


def _with_json(command: click.Command, path: tuple[str, ...] = ()) -> set[str]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        children = {name: command.get_command(context, name) for name in command.list_commands(context)}
        found = {word for name, child in children.items() if child for word in _with_json(child, (*path, name))}
        if not command.invoke_without_command:
            return found
        return found | _with_json(click.Command(command.name, params=command.params), path)
    return {" ".join(path)} if any("--json" in each.opts for each in command.params) else set()


def test_every_command_with_json_has_a_schema() -> None:
    assert _with_json(cli) == set(PRINTED)


def test_every_schema_is_there_and_every_one_is_used() -> None:
    assert NAMED == FILES


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_schema_is_one_and_says_something(name: str) -> None:
    Draft202012Validator.check_schema(load(name))
    assert load(name)["title"]
    assert problems(name, "nonsense") and problems(name, {"surprise": 1})


def test_what_is_emitted_is_emitted_by_its_schema() -> None:
    text = {path: path.read_text() for path in SOURCES}
    made = {name for each in text.values() for name in re.findall(r'^@form\("(\w+)"', each, re.MULTILINE)}
    assert made == FILES
    past = [path.name for path, each in text.items() if re.search(r"click\.echo\(\s*json\.dumps", each)]
    assert past == []


def test_what_does_not_fit_is_refused_in_tests_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dumped(Tags(["x"])) == dumped_as("tags", {"schema": 1, "tags": ["x"]}) == '{"schema": 1, "tags": ["x"]}'
    with pytest.raises(InputErrors):
        dumped_as("tags", {"schema": 1, "tags": [1]})
    with pytest.raises(InputErrors, match="surprise"):
        dumped_as("runs", {"schema": 1, "store": "x", "runs": [{"surprise": 1}]})
    monkeypatch.delenv(CHECKED)
    assert dumped_as("tags", {"schema": 1, "tags": [1]}) == '{"schema": 1, "tags": [1]}'


def test_the_files_are_what_the_models_say() -> None:
    made = run_path(str(ROOT / "scripts" / "schemas.py"))["files"]()
    stale = [path.name for path, text in made.items() if not path.exists() or path.read_text("utf-8") != text]
    assert stale == [], "make schemas"
    assert {path.name.removesuffix(".schema.json") for path in made} == FILES
