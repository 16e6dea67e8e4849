"""From what a program prints to iterations: where a pattern finds a step, or where the library has counted enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import isfinite
from typing import TYPE_CHECKING

from harness.errors import InfraError
from harness.workloads.reading.lines import Line, LineReader, parsed
from harness.workloads.reading.patterns import Finder

if TYPE_CHECKING:
    from regex import Match

OP = "command"
"""Of `bench_start`: what is timed is whatever the program calls a step."""
REQUESTS = "inference"
"""Of `bench_start`: an iteration is a request; several are under way at once."""
FOREIGN = (OP, REQUESTS)
"""Of programs that are not ours: only ranks that speak count, and the exit codes say whether all went well."""
EVENT = b'{"t_ns":'
"""How lines of the net library and of the profiler begin; they may come amid a line of the program."""
OURS = b"R2CC: "
MADE = ("bench_start", "progress", "iteration", "bench_end", "log")
"""Lines of ours, whose times are this machine's."""
LAST_LINES = 8
LONGEST_QUOTE = 200
LONGEST_RESULT = 200
AT_ONCE = 0.5
"""More than this share of all steps read together with the one before: their times say nothing."""
FEW = 8


@dataclass(frozen=True)
class Wanted:
    """What to look for in one rank's output."""

    rank: int
    ranks: int
    warmup: int
    step: Finder | None = None
    """None: the whole program is one iteration, unless the library counts."""
    result: Finder | None = None
    """Its last match is the rank's result."""
    every: int | None = None
    """Collectives of a step, where the library counts them."""


@dataclass
class CommandLines(LineReader):
    """One rank's. It says `bench_start` with its first step, so that only ranks that speak are counted."""

    wanted: Wanted
    index: int = 0
    """Of the step that runs."""
    begun_ns: int = 0
    """When it began."""
    said: int = 0
    """Lines that the program printed."""
    last: list[bytes] = field(default_factory=list)
    key: tuple[bytes, ...] = ()
    """What the last step called itself."""
    result: str | None = None
    steps: int = 0
    at_once: int = 0
    ended: dict[str, int] = field(default_factory=dict)
    """Collectives that each communicator has done."""
    rest: bytes = b""
    """The beginning of a line that one of ours cut in two."""

    def begin(self, began_ns: int) -> None:
        self.index, self.begun_ns = -self.wanted.warmup, began_ns

    def read(self, lines: Sequence[bytes], read_ns: int) -> Iterator[Line | bytes]:
        if self.rest and lines:
            lines, self.rest = [self.rest + lines[0], *lines[1:]], b""
        text = b"\n".join(lines)
        if EVENT in text:
            text, ours = self._without_ours(lines)
            for line in ours:
                yield from self._counted(line, read_ns)
        yield from self._program(text, read_ns)

    def _without_ours(self, lines: Sequence[bytes]) -> tuple[bytes, list[Line]]:
        kept: list[bytes] = []
        ours = []
        for text in lines:
            before, mark, after = text.partition(EVENT)
            line = parsed(mark + after) if mark else None
            if line is None:
                kept.append(self.rest + text)
                self.rest = b""
                continue
            ours.append(line)
            self.rest += before
        return b"\n".join(kept), ours

    def _program(self, text: bytes, read_ns: int) -> Iterator[Line | bytes]:
        if not text:
            return
        self.said += text.count(b"\n") + 1
        self.last = [*self.last, *text.rsplit(b"\n", LAST_LINES)[-LAST_LINES:]][-LAST_LINES:]
        if OURS in text:
            yield from ({"event": "log", "t_ns": read_ns, "message": said} for said in _ours(text))
        if self.wanted.result is not None:
            for found in self.wanted.result.found(text, self.wanted.rank):
                self.result = _words(found)
        if self.wanted.step is not None:
            for number, found in enumerate(self.wanted.step.found(text, self.wanted.rank)):
                yield from self._step(found, read_ns, number > 0)

    def _step(self, found: Match[bytes], read_ns: int, together: bool) -> Iterator[Line]:
        groups = {name: text for name, text in found.groupdict().items() if text is not None}
        key = tuple(groups.get(name, b"") for name in ("epoch", "step"))
        if any(key) and key == self.key:
            return  # a progress bar is drawn again
        self.key = key
        took_ms = self._number(groups, "ms")
        took_s = self._number(groups, "s")
        took_ms = took_s * 1e3 if took_ms is None and took_s is not None else took_ms
        self.at_once += together and took_ms is None
        start_ns = self.begun_ns if took_ms is None else read_ns - round(took_ms * 1e6)
        more: Line = {"loss": self._number(groups, "loss")} if "loss" in groups else {}
        if "result" in groups:
            more["result"] = short(groups["result"])
        yield from self._ended(start_ns, read_ns, more)

    def _number(self, groups: Mapping[str, bytes], name: str) -> float | None:
        """None where there is no such group, or where it is not finite: JSON has no word for that."""
        try:
            value = float(groups[name]) if name in groups else None
        except ValueError as error:
            text = groups[name][:LONGEST_QUOTE].decode(errors="replace")
            raise InfraError(
                f"rank {self.wanted.rank}: progress.step found {text!r} as {name}, which is no number",
                f"let the group end where the number ends: (?P<{name}>[0-9.]+)",
            ) from error
        return value if value is not None and isfinite(value) else None

    def _counted(self, line: Line, read_ns: int) -> Iterator[Line]:
        """Of the library, which has the host's own clock: such a line is handed on as it came."""
        yield {**line, "rank": self.wanted.rank}
        if line["event"] != "traffic" or self.wanted.every is None:
            return
        self.ended[str(line.get("comm"))] = int(line.get("ended", 0))
        done = sum(self.ended.values())
        while done >= (self.steps + 1) * self.wanted.every:
            yield from self._ended(self.begun_ns, read_ns, {})

    def _ended(self, start_ns: int, end_ns: int, more: Line) -> Iterator[Line]:
        """A step has ended, and the next one begins."""
        if self.steps == 0:
            yield self._start(start_ns)
            yield self._begins(start_ns)
        yield {
            "event": "iteration", "t_ns": end_ns, "rank": self.wanted.rank, "index": self.index,
            "start_ns": min(start_ns, end_ns), "end_ns": end_ns, "bytes": 0, "wrong_elements": 0, **more,
        }  # fmt: skip
        self.steps += 1
        self.index += 1
        self.begun_ns = end_ns
        yield self._begins(end_ns)

    def _start(self, t_ns: int) -> Line:
        return {
            "event": "bench_start", "t_ns": t_ns, "rank": self.wanted.rank, "op": OP, "bytes": 0,
            "ranks": self.wanted.ranks, "channels": 0, "chunk_bytes": 0, "slots": 0, "mode": None, "nics": [],
            "connections": [],
        }  # fmt: skip

    def _begins(self, t_ns: int) -> Line:
        return {
            "event": "progress", "t_ns": t_ns, "rank": self.wanted.rank, "index": self.index, "start_ns": t_ns
        }  # fmt: skip

    def end(self, read_ns: int) -> Iterable[Line | bytes]:
        if self.rest:
            yield from self._program(self.rest, read_ns)
        if self.wanted.step is None and self.wanted.every is None:
            self.index = 0
            yield from list(self._ended(self.begun_ns, read_ns, {}))[:-1]
        if self.at_once > AT_ONCE * self.steps and self.steps > FEW:
            raise InfraError(
                f"rank {self.wanted.rank}: {self.at_once} of {self.steps} steps were read together with the one "
                "before: the program's output is buffered, so nobody knows when they were",
                "let it flush its output: PYTHONUNBUFFERED=1, print(..., flush=True), or stdbuf -oL",
            )
        if self.steps:
            more = {} if self.result is None else {"result": self.result}
            yield {
                "event": "bench_end", "t_ns": read_ns, "rank": self.wanted.rank, "completed": max(self.index, 0),
                "wrong_elements": 0, "max_rss_bytes": 0, "cpu_s": 0.0, **more,
            }  # fmt: skip

    def own_time(self, line: Line) -> bool:
        return line["event"] not in MADE

    def quoted(self) -> str:
        """What the program printed last, for people."""
        return "\n".join(text[:LONGEST_QUOTE].decode(errors="replace") for text in self.last)


def _words(found: Match[bytes]) -> str:
    """Its groups, or all of it."""
    return short(b" ".join([part for part in found.groups() if part is not None] or [found[0]]))


def short(result: bytes) -> str:
    """A long result is compared by its digest."""
    return result.decode(errors="replace") if len(result) <= LONGEST_RESULT else f"sha256 {sha256(result).hexdigest()}"


def _ours(text: bytes) -> list[str]:
    """What the net library said for operators."""
    said = (line.partition(OURS)[2] for line in text.split(b"\n") if OURS in line)
    return [f"{OURS.decode()}{line[:1000].decode(errors='replace')}" for line in dict.fromkeys(said)]
