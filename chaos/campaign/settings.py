"""Dotted keys: what a campaign puts into an experiment before it is checked, and what a combination is called."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any


def applied(value: Any, changes: Mapping[str, Any]) -> tuple[Any, dict[str, str]]:
    """(a copy of an experiment's plain value with the changes in it, why not for every key that leads nowhere)."""
    changed = deepcopy(value)
    wrong: dict[str, str] = {}
    for key, new in changes.items():
        try:
            _put(changed, key, deepcopy(new))
        except ValueError as error:
            wrong[key] = str(error)
    return changed, wrong


def _put(value: Any, key: str, new: Any) -> None:
    """Mappings on the way are made when they are missing: what the file leaves out has defaults that can be set."""
    parts = key.split(".")
    for place, part in enumerate(parts):
        here = ".".join(parts[:place]) or "the experiment"
        last = place == len(parts) - 1
        if isinstance(value, dict) and part:
            value.setdefault(part, {})
            step: Any = part
        elif isinstance(value, list) and part.isdecimal():
            step = int(part)
            if step >= len(value):
                raise ValueError(f"{here} has {len(value)} entries, counted from 0")
        else:
            raise ValueError(f"{here} is no mapping in which {part!r} could be set")
        if last:
            value[step] = new
        else:
            value = value[step]


def combinations(name: str, matrix: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every cell of a matrix by its name: the entry's, and each key's value in it. One where there is no matrix."""
    for values in itertools.product(*matrix.values()):
        chosen = dict(zip(matrix, values, strict=True))
        yield "-".join([name, *(f"{_last(key)}{_word(value)}" for key, value in chosen.items())]), chosen


def _last(key: str) -> str:
    """The part of a key that says what it is; what it counts entries by says nothing."""
    return next((part for part in reversed(key.split(".")) if not part.isdecimal()), key)


def _word(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", "="), default=str)
    return re.sub(r"[^A-Za-z0-9._=-]+", "_", text).strip("_") or "empty"
