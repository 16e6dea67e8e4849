"""JSON Schemas of everything that other tools read: what checks against them, and what writes by them."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from harness.errors import InputErrors
from harness.schemas.form import FORMS, LEFT_OUT

CHECKED = "CHECK_R2CC_JSON"
"""Our tests set this variable: whatever is emitted is held against its schema first. It is no setting of R2CC, which
would be passed on to, or kept from, what runs on hosts."""


@cache
def load(name: str) -> dict[str, Any]:
    """Returns the schema `name` (docs/reference/json.md); KeyError if there is none of that name."""
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


def dumped(value: object, indent: int | None = None) -> str:
    """JSON of an instance of a class that is marked as a `form`. All commands and files go through here
    (docs/reference/contracts.md).

    InputErrors when it does not fit its schema, which only our tests look at (CHECKED).
    """
    return dumped_as(FORMS[type(value)].name, whole(value), indent)


def dumped_as(name: str, value: object, indent: int | None = None) -> str:
    """The same of what is JSON already: read from a file, or made by another program."""
    text = text_of(value, indent)
    if CHECKED in os.environ:
        validate(name, json.loads(text))
    return text


def text_of(value: object, indent: int | None = None) -> str:
    """JSON that nobody checks here."""
    return json.dumps(value, indent=indent, allow_nan=False, default=_plain)


def whole(value: object) -> dict[str, Any]:
    """A form's keys with their values; `schema` is the first."""
    version = FORMS[type(value)].version
    return ({} if version is None else {"schema": version}) | _fields(value)


def plain(value: object) -> dict[str, Any]:
    """The same, all of it as JSON has it."""
    found: dict[str, Any] = json.loads(text_of(whole(value)))
    return found


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else _fields(value)


def _fields(value: Any) -> dict[str, Any]:
    known = ((name, getattr(value, name), optional) for name, optional in _keys(value.__class__))
    return {name: item for name, item, optional in known if item is not None or not optional}


@cache
def _keys(model: Any) -> tuple[tuple[str, bool], ...]:
    """The fields that are in the JSON, each with whether it is left out where it is None."""
    return tuple((each.name, LEFT_OUT in each.metadata) for each in fields(model) if not each.metadata.get("exclude"))
