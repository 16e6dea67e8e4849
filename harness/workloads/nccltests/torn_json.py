"""JSON of a program that may have been killed while it wrote: what is there counts."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic_core import from_json

CONTROL = re.compile(r"[\x00-\x1f]")
PRINTF = re.compile(r"(?<=[\s:\[,])(-?)(inf|nan)(?=[\s,\]}])")
"""Numbers that are none, as printf writes them."""
WORDS = {"inf": "Infinity", "nan": "NaN"}
UNCERTAIN = re.compile(r'(\\[^"\\]*|[-+.\w]+)$')
"""A number at the very end may lack digits."""


def loads(text: str) -> tuple[Any, bool]:
    """(the longest part of the value that is certain, whether that is all of it); (None, False) of nothing."""
    plain = _plain(text)
    try:
        return _first(plain)[0], True
    except (ValueError, RecursionError):
        pass
    try:
        return from_json(UNCERTAIN.sub("", plain), allow_partial=True), False
    except ValueError:
        return None, False


def rest(text: str) -> str:
    """What follows a whole value; "" where there is none."""
    plain = _plain(text)
    try:
        return plain[_first(plain)[1] :]
    except (ValueError, RecursionError):
        return ""


def _first(plain: str) -> tuple[Any, int]:
    """The first value, and where it ends."""
    return json.JSONDecoder().raw_decode(plain, len(plain) - len(plain.lstrip()))


def _plain(text: str) -> str:
    """As JSON has it."""
    return PRINTF.sub(lambda found: found[1] + WORDS[found[2]], CONTROL.sub(" ", text))
