"""JSON Schemas of every file other tools read, and the one function that checks against them."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from harness.errors import InputErrors


@cache
def load(name: str) -> dict[str, Any]:
    """Returns the schema `name` (journal, summary, experiment, topology); KeyError if there is none of that name."""
    file = resources.files(__name__).joinpath(f"{name}.schema.json")
    if not file.is_file():
        raise KeyError(f"no JSON Schema named {name!r} in harness/schemas")
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema


@cache
def _validator(name: str) -> Any:
    from jsonschema import Draft202012Validator

    schema = load(name)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def problems(name: str, value: object) -> list[str]:
    """Returns every way in which `value` breaks schema `name`, as `place: what`; empty when it fits."""
    found = sorted(_validator(name).iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
    return [f"{'/'.join(map(str, error.absolute_path)) or name}: {error.message}" for error in found]


def validate(name: str, value: object) -> None:
    """Raises InputErrors listing everything in `value` that breaks the schema `name`; returns nothing when it fits."""
    found = problems(name, value)
    if found:
        raise InputErrors(found)
