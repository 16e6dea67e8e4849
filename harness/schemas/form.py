"""Values that commands print and that files hold. A frozen dataclass says their JSON, key by key, and `make schemas`
makes the JSON Schema of it; `dumped` writes an instance. It is imported for `r2cc --help`: nothing heavy here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Annotated, Any, Final, NamedTuple, TypeVar

T = TypeVar("T")


class Form(NamedTuple):
    """A schema's name and title, and the version that the key `schema` gives; None: there is no such key."""

    name: str
    title: str
    version: int | None
    read: bool


FORMS: Final[dict[Any, Form]] = {}
"""By class, or by the function that makes a schema. Classes of one name: a value is one of them."""


def form(name: str, title: str = "", version: int | None = 1, read: bool = False) -> Callable[[T], T]:
    """Marks what is printed or written as a whole, or `read`: then a key that has a default may be missing."""

    def mark(model: T) -> T:
        FORMS[model] = Form(name, title, version, read)
        return model

    return mark


class Limits:
    """Words of JSON Schema for `Annotated`. They are checked where JSON is, not where a value is made."""

    def __init__(self, **words: Any) -> None:
        self._words = words

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(schema), **self._words}


Count = Annotated[int, Limits(minimum=0)]
Amount = Annotated[float, Limits(minimum=0)]
Share = Annotated[float, Limits(minimum=0, maximum=1)]
ExitCode = Annotated[int, Limits(enum=[0, 1, 2, 3, 130])]
Mode = Annotated[int, Limits(minimum=0, maximum=3)]
Some = Annotated[tuple[T, ...], Limits(minItems=1)]
LEFT_OUT: Final = "left_out"
OPTIONAL: Final = "optional"


def left_out() -> Any:
    """The default of a key that is not there where its value is None."""
    return field(default=None, metadata={LEFT_OUT: True, "json_schema_extra": _without_null})


def _without_null(schema: dict[str, Any]) -> None:
    kept = [each for each in schema.pop("anyOf", ()) if each != {"type": "null"}]
    schema.pop("default", None)
    schema[OPTIONAL] = True
    schema.update(kept[0] if len(kept) == 1 else {"anyOf": kept} if kept else {})


def newer() -> Any:
    """The default of a key that older files lack."""
    return field(default=None, metadata={"json_schema_extra": {OPTIONAL: True}})


def hidden(factory: Callable[[], T]) -> T:
    """The default of what is no part of the JSON."""
    found: T = field(default_factory=factory, metadata={"exclude": True})
    return found


def growing(model: type[T]) -> type[T]:
    """May have other keys in JSON: those of other versions."""
    setattr(model, "__pydantic_config__", {"extra": "allow", "use_attribute_docstrings": True})  # noqa: B010
    return model
