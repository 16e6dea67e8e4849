"""A value held against a model: every mistake with its place, in our words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from harness.config.words import meant, shown

M = TypeVar("M", bound=BaseModel)
Place = tuple[str | int, ...]
Report = Callable[[Place, str], None]
NOT_SHOWN = ("value_error", "model_type")
"""Kinds of mistakes of which the message says it all, or the value would be too much."""


def fitted(model: type[M], value: Any, report: Report, place: Place = ()) -> M | None:
    """The model of a value that stands at `place`; None, with every mistake reported."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        for problem in error.errors():
            report((*place, *problem["loc"]), words(model, problem))
        return None


def words(model: type[BaseModel], problem: Mapping[str, Any]) -> str:
    """What is wrong, without its place."""
    if problem["type"] == "extra_forbidden":
        known = _known(model, problem["loc"][:-1])
        return f"unknown key{meant(problem['loc'][-1], known)}; known here: {', '.join(known)}"
    if problem["type"] == "missing":
        return "this is required"
    message = str(problem["msg"]).removeprefix("Value error, ")
    given = "" if problem["type"] in NOT_SHOWN else f", not {shown(problem['input'])}"
    return f"{message[:1].lower()}{message[1:]}{given}"


def keys_of(model: type[BaseModel]) -> list[str]:
    """As they stand in a file."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _known(model: type[BaseModel], place: Place) -> list[str]:
    """Keys of the models that may stand at a place; numbers of a list and names of a mapping lead no deeper."""
    kinds = [model]
    for part in place:
        fields = [field for kind in kinds for name, field in kind.model_fields.items() if part in (name, field.alias)]
        kinds = [each for field in fields for each in _models(field.annotation)] or kinds
    return list(dict.fromkeys(key for kind in kinds for key in keys_of(kind)))


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]
