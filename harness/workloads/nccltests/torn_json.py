"""JSON of a program that may have been killed while it wrote: what is there counts. Standard library only."""

from __future__ import annotations

import json
import re
from typing import Any

TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([{}\[\]:,])|([^\s"{}\[\]:,]+))', re.DOTALL)
WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
DEEPEST = 64
TORN = object()
"""No value: the text ends, or stops being JSON, before there is one."""


def loads(text: str) -> tuple[Any, bool]:
    """(the longest part of the value that is certain, whether that is all of it); (None, False) of nothing.

    A number at the very end is not certain: digits may be missing. `inf` and `nan`, as printf writes them, are floats.
    """
    reader = _Reader(text)
    value = reader.value(0)
    return (None, False) if value is TORN else (value, not reader.torn)


def rest(text: str) -> str:
    """What follows a whole value; "" where there is none."""
    reader = _Reader(text)
    return "" if reader.value(0) is TORN or reader.torn else reader.left


class _Reader:
    """Reads tokens from the front; `torn` once there is none that fits."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self.torn = text, 0, False

    @property
    def left(self) -> str:
        return self._text[self._at :]

    def value(self, depth: int) -> Any:
        """TORN, or a value; an object or a list as far as it goes, and then `torn` is set."""
        token = self._next()
        if token == "{" and depth < DEEPEST:
            return self._object(depth + 1)
        if token == "[" and depth < DEEPEST:
            return self._list(depth + 1)
        if token[:1] == '"':
            return self._string(token)
        return self._word(token)

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        token = self._next()
        while token != "}":
            key: Any = self._string(token) if token[:1] == '"' else TORN
            if key is TORN or self._next() != ":":
                self.torn = True
                break
            value = self.value(depth)
            if value is not TORN:
                found[key] = value
            if self.torn or not self._goes_on("}"):
                break
            token = self._next()
        return found

    def _list(self, depth: int) -> list[Any]:
        found: list[Any] = []
        if self._peek() == "]":
            self._next()
            return found
        while True:
            value = self.value(depth)
            if value is not TORN:
                found.append(value)
            if self.torn or not self._goes_on("]"):
                return found

    def _goes_on(self, end: str) -> bool:
        token = self._next()
        self.torn = token not in (",", end)
        return token == ","

    def _string(self, token: str) -> Any:
        try:
            return json.loads(token, strict=False)
        except ValueError:
            self.torn = True
            return TORN

    def _word(self, token: str) -> Any:
        if token in WORDS:
            return WORDS[token]
        try:
            if self._at == len(self._text):
                raise ValueError("perhaps not all of it")
            return int(token) if token.lstrip("-").isdecimal() else float(token)
        except ValueError:
            self.torn = True
            return TORN

    def _next(self) -> str:
        found = TOKEN.match(self._text, self._at)
        if found is None:
            self.torn = True
            return ""
        self._at = found.end()
        return next(part for part in found.groups() if part is not None)

    def _peek(self) -> str:
        found = TOKEN.match(self._text, self._at)
        return "" if found is None else next(part for part in found.groups() if part is not None)
