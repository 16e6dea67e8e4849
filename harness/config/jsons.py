"""JSON: a user's, and that of files that anybody may have written (RFC 8259, within limits)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from harness.config import plain
from harness.config.files import MOST_BYTES, Unreadable, bytes_of, decoded

Json = dict[str, Any]
ZEROS = bytes.maketrans(b"123456789E", b"000000000e")
LONG = b"0" * plain.LONGEST
"""What a number of over 64 bits looks like once each digit is 0."""
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def value_of(text: str | bytes) -> Any:
    """What a user's text says. ValueError when it is no JSON, also when it is nested deeper than Python can follow."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def mapping_of(path: Path, schema: int | None = None, most_bytes: int = MOST_BYTES) -> Json:
    """The object in a file. Missing, or Unreadable: what `bytes_of` refuses, what is no JSON, is no object, is beyond
    the limits of `plain`, or, with `schema`, says that it is of another version."""
    value = loaded(bytes_of(path, most_bytes), path.name)
    if not isinstance(value, dict):
        raise Unreadable(f"{path.name} holds no JSON object")
    if schema is not None:
        check_version(value, schema, path.name)
    return value


def loaded(raw: bytes, name: str, largest: int = plain.LARGEST) -> object:
    """The value in `raw`; `name` is what errors call it, `largest` as in `plain.check`."""
    odd = is_odd(raw) or not _is_shallow(raw)
    strictly: Any = {"parse_int": _whole, "parse_constant": _no_number} if odd else {}
    try:
        value = json.loads(decoded(raw, name), **strictly)
    except RecursionError as error:
        raise Unreadable(f"{name} is more than {plain.MOST_DEPTH} levels deep") from error
    except ValueError as error:
        raise Unreadable(f"{name} is no JSON: {error}") from error
    if odd:
        plain.check(value, name, largest)
    return value


def is_odd(raw: bytes) -> bool:
    """True where a value may be beyond a limit: long numbers, large powers of ten, words, half of a surrogate pair. A
    journal has millions of lines: a regular expression, or a loop, would take longer than to read the JSON."""
    zeros = raw.translate(ZEROS)
    return (
        LONG in zeros or b"e000" in zeros or b"e+000" in zeros or b"NaN" in raw or b"Infinity" in raw
        or b"\\ud" in raw or b"\\uD" in raw
    )  # fmt: skip


def _is_shallow(raw: bytes) -> bool:
    """True where brackets are at most MOST_DEPTH deep. Peels a level off at a time: to look at each value takes longer
    than all the rest. Brackets in texts may hide it: then each value is looked at."""
    brackets = raw.translate(None, NO_BRACKETS)
    for _ in range(plain.MOST_DEPTH):
        if not brackets:
            return True
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return not brackets


def check_version(value: Json, known: int, name: str) -> None:
    """Unreadable for another `schema` than `known`; without one it is of the first version."""
    version = value.get("schema", 1)
    if isinstance(version, bool) or not isinstance(version, int):
        raise Unreadable(f"{name} says no version: its schema is {plain.printable(repr(version)[:40])}")
    if version > known:
        newer = f"it was written by a newer r2cc (schema {version}; this one knows {known})"
        raise Unreadable(f"{name} is of another version: {newer}", "update r2cc")
    if version < known:
        raise Unreadable(f"{name} is of another version, which this r2cc does not know (schema {version})")


def _whole(digits: str) -> int:
    """Python reads no number of over some thousand digits, and slowly one of fewer."""
    if len(digits) > plain.LONGEST + 1:
        raise ValueError("a number of more than 64 bits")
    return int(digits)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number there")
