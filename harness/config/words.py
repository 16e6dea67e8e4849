"""Words of error messages: short, however large the input is."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

MOST_LETTERS = 60
MOST_SHOWN = 300
MOST_NAMES = 20
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = MOST_LETTERS
_REPR.maxlevel = 3


def shown(value: object) -> str:
    """A value as Python writes it; what is long is cut."""
    try:
        text = _REPR.repr(value)
    except ValueError:  # more digits than Python turns into text
        return f"a {type(value).__name__}"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def listed(names: Iterable[object]) -> str:
    """`a, b, c`; of many names the first, and how many more there are."""
    every = [str(name) for name in names]
    more = len(every) - MOST_NAMES
    return ", ".join(every[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def meant(name: object, names: Iterable[str]) -> str:
    """` (did you mean NAME?)`, where one is near."""
    near = get_close_matches(str(name), list(names), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def in_order(errors: Sequence[str], file: str) -> list[str]:
    """Messages by line, each once: those of `file`, then those of the files that it names, file by file."""
    places = {error: _place(error, file) for error in errors}
    files = {name: number for number, name in enumerate(dict.fromkeys([file, *(name for name, _ in places.values())]))}
    return sorted(places, key=lambda error: (files[places[error][0]], places[error][1], error))


def _place(message: str, file: str) -> tuple[str, int]:
    """(file, line) of a `file:line: text` message; `file` is the one that is known."""
    own = message.startswith(f"{file}:")
    found = re.match(r"(.*?):(\d+): ", message.removeprefix(file) if own else message)
    return (file if own else found[1], int(found[2])) if found else (file if own else "", 0)
