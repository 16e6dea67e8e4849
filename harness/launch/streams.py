"""Whose line is whose: what launchers that carry the output of several ranks put before it. Pure, chunk by chunk."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

TAG = re.compile(rb"\[\d+,(\d+)\]<(?:stdout|stderr|stddiag)>:")
LABEL = re.compile(rb"^ *(\d+): ?")
LONGEST_TAG = 48
END = re.compile(rb"\r?\n|\r(?=[^\n])")
"""Also that of a progress bar; what ends a chunk may be half an end."""
LONGEST_LINE = 1 << 20
"""What is longer is cut: output may be binary."""
Line = tuple[int | None, bytes]
"""(rank, line without its end); rank None: the launcher's own, or not told."""
Reader = Callable[[bytes], list[Line]]


@dataclass
class Whole:
    """Lines as they are, of one rank or of nobody knows whom."""

    rank: int | None = None
    rest: bytes = b""

    def __call__(self, chunk: bytes) -> list[Line]:
        text = self.rest + chunk
        *lines, self.rest = END.split(text) if b"\r" in text else text.split(b"\n")
        if len(self.rest) > LONGEST_LINE:
            lines, self.rest = [*lines, self.rest], b""
        return [(self.rank, line) for line in lines]


@dataclass
class Labelled:
    """`srun --label`: whole lines, each begun by its rank."""

    whole: Whole = field(default_factory=Whole)

    def __call__(self, chunk: bytes) -> list[Line]:
        return [_labelled(line) for _, line in self.whole(chunk)]


def _labelled(line: bytes) -> Line:
    found = LABEL.match(line)
    return (None, line) if found is None else (int(found[1]), line[found.end() :])


@dataclass
class Tagged:
    """`mpirun --tag-output`: a tag where a line begins, and wherever mpirun's own buffer began anew, amid a line."""

    rest: bytes = b""
    speaker: int | None = None
    parts: dict[int | None, bytes] = field(default_factory=dict)

    def __call__(self, chunk: bytes) -> list[Line]:
        text = self.rest + chunk
        held = text.rfind(b"[", max(0, len(text) - LONGEST_TAG))
        cut = len(text) if held < 0 or TAG.match(text, held) or b"\n" in text[held:] else held
        text, self.rest = text[:cut], text[cut:]
        lines, at = [], 0
        for tag in TAG.finditer(text):
            lines += self._said(text[at : tag.start()])
            self.speaker, at = int(tag[1]), tag.end()
        return lines + self._said(text[at:])

    def _said(self, text: bytes) -> list[Line]:
        lines: list[Line] = []
        while text:
            line, end, text = text.partition(b"\n")
            whole = self.parts.pop(self.speaker, b"") + line
            if end:
                lines.append((self.speaker, whole.rstrip(b"\r")))
                self.speaker = None
            else:
                self.parts[self.speaker] = whole
        return lines
