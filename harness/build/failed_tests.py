"""What the C++ tests (r2cc_patches/tests/check.h) said of those that failed, out of all that they said."""

from __future__ import annotations

import re

END = re.compile(r"(ok  |FAIL) (\S+) \(")
FINDING = re.compile(r"^\S+:\d+: |^(WARNING|SUMMARY): |==ERROR: |runtime error: ")
TESTS, LINES, FIRST = 4, 24, 3


def failed_tests(lines: list[str]) -> list[str]:
    """Their lines, at most LINES of a test and TESTS tests, then the names of all; nothing if none failed."""
    failed = _failed(lines)
    if not failed:
        return []
    names = sorted({line for line in lines if line.startswith("failed: ")})
    return [line for block in list(failed.values())[:TESTS] for line in _bounded(block)] + names[:LINES]


def _failed(lines: list[str]) -> dict[str, list[str]]:
    """A test's output ends with its name. What a sanitizer says at exit follows that, and then the name once more."""
    said: dict[str, list[str]] = {}
    failed: dict[str, list[str]] = {}
    block: list[str] = []
    for line in lines:
        block.append(line)
        if (end := END.match(line)) is None:
            continue
        verdict, name = end.groups()
        said = {name: [*said.get(name, []), *block]}
        if verdict == "FAIL":
            failed |= said
        block = []
    return failed


def _bounded(block: list[str]) -> list[str]:
    """Its first lines, which say the seed; from the first check that failed on; and the last."""
    if len(block) <= LINES:
        return block
    finding = next((at for at, line in enumerate(block) if at >= FIRST and FINDING.search(line)), FIRST)
    middle = block[finding:-1][: LINES - FIRST - 3]
    return [*block[:FIRST], "...", *middle, "...", block[-1]]
