"""How far a simulation is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

FIRST_LINE_S, LINE_EVERY_S = 2.0, 5.0


class Silent:
    """For --quiet."""

    def start(self, done: int, total: int) -> None:
        """Nothing."""

    def advance(self, done: int) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""


class Lines:
    """For log files: `12 of 64 cells, 6 s, about 26 s left`."""

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.tell = tell
        self.clock = clock

    def start(self, done: int, total: int) -> None:
        self.first, self.total = done, total
        self.began_s = self.clock()
        self.told_s = self.began_s + FIRST_LINE_S - LINE_EVERY_S
        if done:
            self.tell(f"{done} of {total} cells were done before")

    def advance(self, done: int) -> None:
        now_s = self.clock()
        if now_s - self.told_s < LINE_EVERY_S:
            return
        self.told_s = now_s
        self.tell(f"{done} of {self.total} cells, {now_s - self.began_s:.0f} s, about {self.left_s(done):.0f} s left")

    def left_s(self, done: int) -> float:
        """At the rate so far."""
        return (self.clock() - self.began_s) / max(1, done - self.first) * (self.total - done)

    def stop(self) -> None:
        """Lines need no ending."""


class Bar:
    """For terminals."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Remaining

        parts = (TextColumn("cells"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"))
        self.progress: Progress = Progress(*parts, Remaining(), console=Console(file=stream), transient=True)
        self.task: TaskID | None = None

    def start(self, done: int, total: int) -> None:
        self.progress.start()
        self.task = self.progress.add_task("cells", total=total, completed=done)

    def advance(self, done: int) -> None:
        if self.task is not None:
            self.progress.update(self.task, completed=done)

    def stop(self) -> None:
        self.progress.stop()


def display(stream: TextIO, *, quiet: bool) -> Silent | Lines | Bar:
    """What suits the stream."""
    if quiet:
        return Silent()
    if stream.isatty():
        return Bar(stream)
    return Lines(lambda line: print(line, file=stream, flush=True))
