"""Whether a journal's line has values of the kinds that its event has (harness/schemas/journal.schema.json)."""

from __future__ import annotations

import math
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
Form = tuple[tuple[str, tuple[type, ...], float], ...]
"""Of each field that has a type: its name, its types and the least it may be."""


def fits(line: Mapping[str, Any]) -> bool:
    """False where a field that is there is of another type, or less than it can be. What is missing, each reader finds
    for itself; a journal has millions of lines, for which JSON Schema is too slow."""
    forms = _forms()
    form = forms.get(line["event"]) or forms[""]
    return all(_is_good(line[name], kinds, least) for name, kinds, least in form if name in line)


def _is_good(value: Any, kinds: tuple[type, ...], least: float) -> bool:
    return type(value) in kinds and (least == -math.inf or value is None or value >= least)


@cache
def _forms() -> dict[str, Form]:
    """By event; "" has what all lines have."""
    schema = schemas.load("journal")
    rules = {rule["if"]["properties"]["event"]["const"]: rule["then"] for rule in schema["allOf"]}
    own = {event: {**schema["properties"], **then.get("properties", {})} for event, then in rules.items()}
    return {event: tuple(_form(properties)) for event, properties in {**own, "": schema["properties"]}.items()}


def _form(properties: Mapping[str, Any]) -> Iterator[tuple[str, tuple[type, ...], float]]:
    for name, about in properties.items():
        if kinds := _types(about):
            yield name, kinds, about.get("minimum", -math.inf)


def _types(about: Mapping[str, Any]) -> tuple[type, ...]:
    if "enum" in about:
        return tuple({type(value) for value in about["enum"]})
    words = about.get("type", [])
    return tuple(kind for word in ([words] if isinstance(words, str) else words) for kind in KINDS[word])
