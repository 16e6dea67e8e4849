"""Lines of a file as their writer meant them: whatever its encoding, its ends of lines and its colours."""

from __future__ import annotations

import codecs
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.errors import UsageError

PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip
"""UTF-32 first: its mark begins with that of UTF-16."""
SPACES = {0: None, 0xA0: " "}
"""NULs, which a file that was cut short may have, and what a browser makes of spaces."""
LOOKED_AT = 4096
CODES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, and what moves the cursor
    r"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles and links
    r"|\x1b[ -/]*[0-~]"
    r"|\x9b[0-?]*[ -/]*[@-~]"
    r"|\^\[\[[0-9;]*[A-Za-z]"  # as `cat -v` shows them
)
TEXT_KEYS = ("log", "message", "msg", "textPayload")
NUMBERED = re.compile(r"\s*(\d+)(?:\t|:|\s*│)")
FEWEST_NUMBERED = 5
"""Fewer may be ranks: `0:`, `1:`. No launcher puts a tab there."""


@dataclass(frozen=True)
class Line:
    """One line. `whole`: its end was written too, so nothing is missing."""

    number: int
    text: str
    whole: bool = True


def decoded(raw: bytes) -> str:
    """UTF-8 if nothing says otherwise, its NULs left out. UsageError for what is no text."""
    if raw.startswith(PACKED):
        raise UsageError("it is compressed", "unpack it first")
    text = raw.decode(_encoding(raw), errors="replace").translate(SPACES)
    if not text.strip("\ufeff \t\r\n"):
        raise UsageError("it is empty", "is it the right file?")
    return text.removeprefix("\ufeff")


def _encoding(raw: bytes) -> str:
    found = next((name for mark, name in MARKS.items() if raw.startswith(mark)), None)
    if found is not None:
        return found
    begun = raw[:LOOKED_AT]
    half = len(begun) // 2
    for name, zeros in (("utf-16-le", begun[1::2].count(0)), ("utf-16-be", begun[::2].count(0))):
        if half and zeros > half * 0.8:
            return name
    return "utf-8"


def lines(text: str) -> Iterator[Line]:
    """Without colours, a container log's JSON and line numbers. What a `\\r` parts are lines of the same number."""
    ended = text if "\n" in text else text.replace("\r", "\n")
    plain = CODES.sub("", ended) if any(mark in ended for mark in ("\x1b", "\x9b", "^[")) else ended
    found = [_unpacked(piece) for piece in plain.split("\n")]
    cut = _numbers_before(found)
    for number, line in enumerate(found, 1):
        *parts, last = (line[cut[number - 1] :] if cut else line).rstrip("\r").split("\r")
        yield from (Line(number, part) for part in parts)
        yield Line(number, last, whole=number < len(found))


def _unpacked(line: str) -> str:
    """The text in a line of a log that is kept as JSON: Docker's, or a collector's."""
    if not line.startswith('{"'):
        return line
    try:
        kept = json.loads(line)
    except (ValueError, RecursionError):
        return line
    return next((str(kept[key]).rstrip("\r\n") for key in TEXT_KEYS if key in kept), line)


def _numbers_before(found: Sequence[str]) -> list[int]:
    """How long the line number is that `cat -n` or `grep -n` wrote before each line; [] when there are none."""
    first = next((line for line in found if line.strip()), "")
    if NUMBERED.match(first) is None:
        return []
    matches = [NUMBERED.match(line) for line in found]
    told = [match for match in matches if match is not None]
    rising = all(int(before[1]) < int(after[1]) for before, after in itertools.pairwise(told))
    fewest = 1 if all(match[0].endswith("\t") for match in told) else FEWEST_NUMBERED
    if len(told) < max(fewest, sum(bool(line.strip()) for line in found)) or not rising:
        return []
    return [match.end() if match is not None else 0 for match in matches]
