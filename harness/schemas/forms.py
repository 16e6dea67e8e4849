"""How a JSON Schema is made of a model. Each folder's `forms.py` names its schemas: name -> (title, model), or what
makes it. `make schemas` writes them all.

A typed dict says which keys a JSON object of ours has: the object itself stays plain, and mypy checks it where it is
made. It has no other keys than those, unless it is marked `@with_config(OPEN)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field

T = TypeVar("T")
Forms = Mapping[str, tuple[str, Any] | Callable[[], dict[str, Any]]]
Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Some = Annotated[list[T], Field(min_length=1)]
CLOSED = ConfigDict(use_attribute_docstrings=True)
OPEN = ConfigDict(extra="allow", use_attribute_docstrings=True)
"""For what may say more: it grows, or others write it."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(name: str, title: str, model: Any) -> dict[str, Any]:
    """The JSON Schema of what `model` describes."""
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        """A key's title says what the key says."""

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    holder = TypeAdapter(tuple[model], config=CLOSED)  # of typed dicts alone pydantic takes no configuration
    whole = holder.json_schema(schema_generator=Untitled)
    made, parts = whole["prefixItems"][0], whole.get("$defs", {})
    if name_of := made.get("$ref"):
        made = parts.pop(name_of.rpartition("/")[2])
    made = {**made, "$defs": parts} if parts else made
    for each in (made, *parts.values()):
        if "properties" in each:
            each.setdefault("additionalProperties", False)
    return {"$schema": DIALECT, "$id": f"r2cc:{name}:1", **made, "title": title}
