"""What a rank of `kind: inference` prints: lines of ours and of the net library, amid whatever the server says."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from harness.workloads.reading.lines import Line, LineReader, parsed
from harness.workloads.reading.steps import LAST_LINES, LONGEST_QUOTE, OURS

BEGINS = (b'{"event":', b'{"t_ns":')


@dataclass
class ServedLines(LineReader):
    """Of one rank. What the server says is quoted when it ends badly, and not kept otherwise."""

    rank: int
    last: deque[bytes] = field(default_factory=lambda: deque(maxlen=LAST_LINES))

    def read(self, lines: Sequence[bytes], read_ns: int) -> Iterator[Line | bytes]:
        for text in lines:
            at = min((place for mark in BEGINS if (place := text.find(mark)) >= 0), default=-1)
            line = parsed(text[at:]) if at >= 0 else None
            if line is not None and isinstance(line.get("t_ns"), int):
                yield {**line, "rank": self.rank}
            elif OURS in text:
                said = OURS + text.partition(OURS)[2][:1000]
                yield {"event": "log", "t_ns": read_ns, "message": said.decode(errors="replace")}
            elif text:
                self.last.append(text)

    def own_time(self, line: Line) -> bool:
        return bool(line["event"] != "log")

    def quoted(self) -> str:
        return "\n".join(text[:LONGEST_QUOTE].decode(errors="replace") for text in self.last)
