"""How a JSON Schema is made of a model. `make schemas` writes them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from harness.schemas.form import FORMS, OPTIONAL

CLOSED = ConfigDict(use_attribute_docstrings=True)
DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Generator(GenerateJsonSchema):
    """A key's title says what the key says, so it has none. What is written has all keys but optional ones."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def field_is_required(self, field: Any, total: bool) -> bool:
        written = self.mode == "serialization" and field["type"] != "typed-dict-field"
        return written or super().field_is_required(field, total)


def schema_of(name: str, title: str, models: Sequence[Any], *, read: bool = False) -> dict[str, Any]:
    """The JSON Schema of a value of one of these classes. It has no keys but theirs, unless a class is `growing`."""
    one_of: Any = Union[tuple(models)]  # noqa: UP007
    holder: TypeAdapter[Any] = TypeAdapter(tuple[one_of], config=CLOSED)
    read = read or all(issubclass(model, BaseModel) or (model in FORMS and FORMS[model].read) for model in models)
    whole = holder.json_schema(schema_generator=_Generator, mode="validation" if read else "serialization")
    made, parts = whole["prefixItems"][0], whole.get("$defs", {})
    for model in models:
        version = FORMS[model].version if model in FORMS else None
        if version is not None and not issubclass(model, BaseModel):
            _add_version(parts[model.__name__], version)
    if name_of := made.get("$ref"):
        made = parts.pop(name_of.rpartition("/")[2])
    made = {**made, "$defs": parts} if parts else made
    for each in (made, *parts.values()):
        if "properties" in each:
            each.setdefault("additionalProperties", False)
            optional = [key for key, value in each["properties"].items() if value.pop(OPTIONAL, False)]
            if optional and "required" in each:
                each["required"] = [key for key in each["required"] if key not in optional]
    return {"$schema": DIALECT, "$id": f"r2cc:{name}:1", **made, "title": title}


def _add_version(part: dict[str, Any], version: int) -> None:
    part["properties"] = {"schema": {"const": version, "type": "integer"}, **part["properties"]}
    part["required"] = ["schema", *part.get("required", ())]
