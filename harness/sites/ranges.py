"""ClusterShell's notation for many names: `node[01-16]`, `r[1-2]n[1-4,9]`, `gpu[0-15/4],login1`."""

from __future__ import annotations

import itertools
import re

from harness.config.words import shown

MOST_NAMES = 4096
PART = re.compile(r"(?P<first>\d+)(?:-(?P<last>\d+)(?:/(?P<step>\d+))?)?")


def expand(text: str) -> list[str]:
    """Every name that `text` means, in its order. Leading zeros are kept. ValueError says what is wrong."""
    names: list[str] = []
    for pattern in _split(text):
        names += _expand_one(pattern)
        if len(names) > MOST_NAMES:
            raise ValueError(f"{shown(text)} means more than {MOST_NAMES} names")
    return names


def _split(text: str) -> list[str]:
    """At commas outside brackets."""
    patterns, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if depth not in (0, 1):
            raise ValueError(f"brackets of '{text}' do not match")
        if letter == "," and depth == 0:
            patterns.append(text[start:index].strip())
            start = index + 1
    if depth:
        raise ValueError(f"brackets of '{text}' do not match")
    patterns.append(text[start:].strip())
    if not all(patterns):
        raise ValueError(f"'{text}' has an empty name")
    return patterns


def _expand_one(pattern: str) -> list[str]:
    choices: list[list[str]] = []
    total = 1
    for index, part in enumerate(re.split(r"\[([^\]]*)\]", pattern)):
        choices.append([part] if index % 2 == 0 else _numbers(part, pattern))
        total *= len(choices[-1])
        if total > MOST_NAMES:
            raise ValueError(f"{shown(pattern)} means more than {MOST_NAMES} names")
    return ["".join(parts) for parts in itertools.product(*choices)]


def _numbers(text: str, pattern: str) -> list[str]:
    """What stands in one pair of brackets."""
    found: list[str] = []
    for part in text.split(","):
        match = PART.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"'{part}' in '{pattern}' is no range: write it as 01-16, 0-15/4 or 7")
        first, last = match["first"], match["last"] or match["first"]
        step = int(match["step"] or 1)
        padded = len(first) > 1 and first.startswith("0")
        if int(last) < int(first) or step == 0 or (padded and len(last) != len(first)):
            raise ValueError(f"range '{part}' in '{pattern}' is backwards, has step 0, or is padded in two ways")
        if (int(last) - int(first)) // step >= MOST_NAMES:
            raise ValueError(f"{shown(pattern)} means more than {MOST_NAMES} names")
        width = len(first) if padded else 0
        found += [str(number).zfill(width) for number in range(int(first), int(last) + 1, step)]
        if len(found) > MOST_NAMES:
            raise ValueError(f"{shown(pattern)} means more than {MOST_NAMES} names")
    return found
