"""The cells of a campaign's matrix, and what each combination is called."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


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
