"""Open MPI's tags amid a line: its buffer began anew there, or another rank spoke. What belongs together is joined."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from reports.store.readers.lines import Line
from reports.store.readers.origin import TIMES

TAG = re.compile(r"(\[(?:[^\[\]\s]*@)?\d+,\d+\](?:\[[^\[\]]*\])?<(?:stdout|stderr|stddiag)>:)")
MARK = "]<std"
TIME_AT_END = re.compile(rf"(?:{TIMES.pattern})\s*$")


def joined(all_lines: Iterable[Line]) -> Iterator[Line]:
    """Each line of each rank as one, with its tag before it; lines without a tag as they are."""
    lines = list(all_lines)
    if not any(MARK in line.text for line in lines):
        yield from lines
        return
    space = " " if _spaced(line.text for line in lines if MARK in line.text) else ""
    parts: dict[str, str] = {}
    for line in lines:
        before, *rest = TAG.split(line.text) if MARK in line.text else (line.text,)
        if not rest or (len(rest) == 2 and not space and not parts):
            yield line
            continue
        pairs = list(zip(rest[::2], rest[1::2], strict=True))
        for place, (tag, text) in enumerate(pairs):
            parts[tag] = parts.get(tag, "") + text.removeprefix(space)
            if place + 1 < len(pairs):
                parts[tag] = TIME_AT_END.sub("", parts[tag])
        last = pairs[-1][0]
        yield Line(line.number, f"{before}{last}{parts.pop(last)}", line.whole)


def _spaced(texts: Iterable[str]) -> bool:
    """Whether a space after each tag is the tag's, as Open MPI 5 has it."""
    followed = [part[:1] for text in texts for part in TAG.split(text)[2::2]]
    return all(first in ("", " ") for first in followed)
