"""JSON Schemas of everything that other tools read: what checks against them, and what writes by them."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

from harness.errors import InputErrors

CHECKED = "CHECK_R2CC_JSON"
"""Our tests set this variable: whatever is emitted is held against its schema first. It is no setting of R2CC, which
would be passed on to, or kept from, what runs on hosts."""


@cache
def load(name: str) -> dict[str, Any]:
    """Returns the schema `name` (see table.py); KeyError if there is none of that name."""
    from importlib import resources

    file = resources.files(__name__).joinpath(f"{name}.schema.json")
    if not file.is_file():
        raise KeyError(f"no JSON Schema named {name!r} in harness/schemas")
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema


@cache
def _validator(name: str) -> Any:
    from jsonschema import Draft202012Validator
    from referencing import Registry, Resource

    def another(uri: str) -> Resource[Any]:
        """`NAME.schema.json`, which a schema may refer to."""
        return Resource.from_contents(load(uri.removesuffix(".schema.json")))

    schema = load(name)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema, registry=Registry(retrieve=another))  # type: ignore[call-arg]


def problems(name: str, value: object) -> list[str]:
    """Returns every way in which `value` breaks schema `name`, as `place: what`; empty when it fits."""
    found = sorted(_validator(name).iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
    return [f"{'/'.join(map(str, error.absolute_path)) or name}: {error.message}" for error in found]


def validate(name: str, value: object) -> None:
    """Raises InputErrors listing everything in `value` that breaks the schema `name`; returns nothing when it fits."""
    found = problems(name, value)
    if found:
        raise InputErrors(found)


def dumped(name: str, value: object, indent: int | None = None) -> str:
    """JSON of `value`, of the schema `name`. All commands and files go through here (docs/reference/contracts.md).

    InputErrors when it does not fit, which only our tests look at (CHECKED).
    """
    text = json.dumps(value, indent=indent, allow_nan=False)
    if CHECKED in os.environ:
        validate(name, json.loads(text))
    return text
