"""Parameters of the model: each with its unit, whether it was measured, published or assumed, and where.

The files of parameters/ hold them, by part: name -> {value, unit, basis, source}.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from harness.config import documents
from harness.config.words import shown
from harness.errors import InputErrors

Basis = Literal["measured", "published", "assumed"]
KEYS = ("value", "unit", "basis", "source")
SHIPPED = Path(__file__).parent / "parameters"
CHANGED = "set by the user; shipped: {value:g} ({basis}, {source})"


@dataclass(frozen=True, slots=True)
class Param:
    """`source`: the paper and section, or the file of this repository."""

    value: float
    unit: str
    basis: Basis
    source: str


class Params(dict[str, Param]):
    """By name, also as attributes: `params.detect_ms.value`."""

    def __getattr__(self, name: str) -> Param:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no parameter {name!r}; {near(name, self)}") from None


def load(overrides: Mapping[str, Any] | None = None) -> Params:
    """The shipped parameters with some changed: a number, or {value, basis, source}.

    Raises InputErrors naming every unknown name (with those like it) and every value that is no number.
    """
    overrides = overrides or {}
    if errors := [f"params: {name}: {problem}" for name, problem in problems(overrides)]:
        raise InputErrors(errors)
    return changed(Params(_shipped()), overrides)


def changed(params: Params, overrides: Mapping[str, Any]) -> Params:
    """Parameters with some of them changed; `overrides` are without problems."""
    return Params({**params, **{name: _changed(params[name], change) for name, change in overrides.items()}})


def names(file: str) -> list[str]:
    """The parameters that one shipped file holds."""
    return list(documents.mapping_of(SHIPPED / file))


def problems(overrides: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(name, what is wrong with it), for files that hold overrides."""
    params = _shipped()
    found = [(str(name), _problem(str(name), change, params)) for name, change in overrides.items()]
    return [(name, problem) for name, problem in found if problem]


def _problem(name: str, change: Any, known: Mapping[str, Param]) -> str:
    if name not in known:
        return f"no such parameter; {near(name, known)}"
    value: Any = change.get("value") if isinstance(change, Mapping) else change
    if type(value) not in (int, float) or not math.isfinite(value) or value < 0:
        return f"a number from 0 on is needed, not {shown(value)}"
    if isinstance(change, Mapping):
        return _words(change)
    return ""


def _words(change: Mapping[str, Any]) -> str:
    if unknown := sorted(set(map(str, change)) - set(KEYS)):
        return f"unknown key {unknown[0]!r}; known here: {', '.join(KEYS)}"
    if change.get("basis", "assumed") not in get_args(Basis):
        return f"basis is one of {', '.join(get_args(Basis))}, not {change['basis']!r}"
    wrong = [key for key in ("unit", "source") if not isinstance(change.get(key, ""), str)]
    return f"{wrong[0]} is text" if wrong else ""


def _changed(param: Param, change: Any) -> Param:
    """What a user set is assumed, unless they say where it is from."""
    if not isinstance(change, Mapping):
        change = {"value": change}
    was = CHANGED.format(value=param.value, basis=param.basis, source=param.source)
    told: dict[str, Any] = {"basis": "assumed", "source": was, **change}
    return replace(param, **{**told, "value": float(change["value"])})


def near(name: str, known: Iterable[str]) -> str:
    """What there is instead of a name that is not there."""
    alike = difflib.get_close_matches(name, [*known], n=3, cutoff=0.5)
    return f"near it: {', '.join(alike)}" if alike else f"there are {', '.join(known)}"


@cache
def _shipped() -> Mapping[str, Param]:
    found: dict[str, Param] = {}
    for file in sorted(SHIPPED.glob("*.yaml")):
        for name, values in documents.mapping_of(file).items():
            if name in found:
                raise ValueError(f"{file.name}: the parameter {name} is in another file, too")
            found[name] = Param(**{**values, "value": float(values["value"])})
    return found
