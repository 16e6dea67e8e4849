"""Whether a journal's line has values of the kinds that its event has (harness/schemas/journal.schema.json)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import NoneType
from typing import Any

from harness import schemas

KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (NoneType,),
}
Form = tuple[tuple[str, tuple[type, ...]], ...]


def fits(line: Mapping[str, Any]) -> bool:
    """False where a field that is there is of another type. What is missing, each reader finds for itself; a journal
    has millions of lines, for which JSON Schema is too slow."""
    forms = _forms()
    form = forms.get(line["event"]) or forms[""]
    return all(type(line[name]) in kinds for name, kinds in form if name in line)


@cache
def _forms() -> dict[str, Form]:
    """By event; "" has what all lines have."""
    schema = schemas.load("journal")
    common = _kinds_of(schema["properties"])
    rules = {rule["if"]["properties"]["event"]["const"]: rule["then"] for rule in schema["allOf"]}
    own = {event: common | _kinds_of(then.get("properties", {})) for event, then in rules.items()}
    return {event: tuple(kinds.items()) for event, kinds in {**own, "": common}.items()}


def _kinds_of(properties: Mapping[str, Any]) -> dict[str, tuple[type, ...]]:
    return {name: _types(about) for name, about in properties.items() if _types(about)}


def _types(about: Mapping[str, Any]) -> tuple[type, ...]:
    if "enum" in about:
        return tuple({type(value) for value in about["enum"]})
    words = about.get("type", [])
    return tuple(kind for word in ([words] if isinstance(words, str) else words) for kind in KINDS[word])
