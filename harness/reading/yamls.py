"""YAML of files that anybody may have written: safe types, within limits; aliases count as often as they are used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from harness.reading import plain
from harness.reading.files import Unreadable, text_of

MOST_BYTES = 4 << 20
MOST_NODES = 200_000
UNFIT = (LookupError, AttributeError, TypeError, OverflowError, RecursionError)
"""What PyYAML raises for `!!bool x` and the like."""
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def mapping_of(path: Path, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """The mapping in a file; {} of an empty one. Missing, or Unreadable: what `text_of` refuses, what is no YAML, is no
    mapping, or is beyond the limits."""
    value = loaded(text_of(path, most_bytes), path.name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Unreadable(f"{path.name} holds no mapping")
    return value


def loaded(text: str, name: str) -> object:
    """The value in `text`; `name` is what errors call it."""
    try:
        _measure(text, name)
        value = yaml.load(text, Loader=LOADER)
    except (yaml.YAMLError, ValueError) as error:
        raise Unreadable(f"{name} is no YAML: {str(error).splitlines()[0]}") from error
    except UNFIT as error:
        raise Unreadable(f"{name} is no YAML: a tag does not fit what it stands before") from error
    plain.check(value, name)
    return value


def _measure(text: str, name: str) -> None:
    """Looks at the file's events alone: they are neither nested nor copied, whatever the file says."""
    open_: list[tuple[str | None, int]] = []
    sizes: dict[str, int] = {}
    total = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.AliasEvent):
            total += _of_alias(event.anchor, open_, sizes, name)
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            sizes[event.anchor or ""] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            open_.append((event.anchor, total))
            total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_.pop()
            sizes[anchor or ""] = total - before
        if len(open_) > plain.MOST_DEPTH:
            raise Unreadable(f"{name} is more than {plain.MOST_DEPTH} levels deep")
        if total > MOST_NODES:
            raise Unreadable(f"{name} comes to more than {MOST_NODES} values, its aliases counted as often as used")


def _of_alias(anchor: str | None, open_: list[tuple[str | None, int]], sizes: dict[str, int], name: str) -> int:
    """How many values it stands for; Unreadable for one that is inside of what it names."""
    if any(anchor == outer for outer, _ in open_):
        raise Unreadable(f"{name}: the alias *{anchor} is inside of what it stands for")
    return sizes.get(anchor or "", 1)
