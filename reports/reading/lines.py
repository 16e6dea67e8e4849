"""Whether a journal's line has values of the kinds that its event has (harness/schemas/journal.schema.json)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
Form = tuple[tuple[str, tuple[type, ...], float | None], ...]
"""Of each field that has a type: its name, its types and the least it may be."""


def fits(line: Mapping[str, Any]) -> bool:
    """False where a field that is there is of another type, or less than it can be. What is missing, each reader finds
    for itself; a journal has millions of lines, for which JSON Schema is too slow."""
    forms = _forms()
    for name, kinds, least in forms.get(line["event"]) or forms[""]:
        if name in line:
            value = line[name]
            if type(value) not in kinds or (least is not None and value is not None and value < least):
                return False
    return True


@cache
def _forms() -> dict[str, Form]:
    """By event; "" has what all lines have."""
    schema = schemas.load("journal")
    rules = {rule["if"]["properties"]["event"]["const"]: rule["then"] for rule in schema["allOf"]}
    own = {event: {**schema["properties"], **then.get("properties", {})} for event, then in rules.items()}
    return {event: tuple(_form(properties)) for event, properties in {**own, "": schema["properties"]}.items()}


def _form(properties: Mapping[str, Any]) -> Iterator[tuple[str, tuple[type, ...], float | None]]:
    for name, about in properties.items():
        if kinds := _types(about):
            yield name, kinds, about.get("minimum")


def _types(about: Mapping[str, Any]) -> tuple[type, ...]:
    either = about.get("anyOf", [about])
    return tuple(kind for each in either if "type" in each for kind in KINDS[each["type"]])
