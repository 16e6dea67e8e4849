"""What a user sees while an experiment runs: a live line on a terminal, plain timestamped lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import IO, TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from rich.status import Status

REFRESH_HZ = 4
"""Seldom: the machine that is watched is the one that is measured."""


class Display(Protocol):
    """Told what happens; shows it."""

    def run_started(self, arm: str, run: int, runs: int, iterations: int) -> None: ...
    def iteration(self, index: int, took_ms: float) -> None: ...
    def note(self, message: str) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Quiet:
    """Shows nothing."""

    def run_started(self, arm: str, run: int, runs: int, iterations: int) -> None: ...
    def iteration(self, index: int, took_ms: float) -> None: ...
    def note(self, message: str) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Plain(Quiet):
    """One timestamped line for everything, for logs and pipes."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._began = time.monotonic()
        self._arm = ""

    def run_started(self, arm: str, run: int, runs: int, iterations: int) -> None:
        self._arm = arm
        self.note(f"run {run + 1} of {runs}, {iterations} iterations")

    def iteration(self, index: int, took_ms: float) -> None:
        self.note(f"iteration {index:>3}  {took_ms:9.1f} ms")

    def note(self, message: str) -> None:
        print(f"[{time.monotonic() - self._began:7.2f} s] {self._arm:<9} {message}", file=self._out, flush=True)


class Live(Plain):
    """On a terminal: one line that moves (arm, iteration, its time, recent times as bars), faults printed above it."""

    BARS = " ▁▂▃▄▅▆▇█"
    SHOWN = 32

    def __init__(self, out: IO[str]) -> None:
        from rich.console import Console

        super().__init__(out)
        self._console = Console(file=out, highlight=False)
        self._line: Status | None = None
        self._times: list[float] = []
        self._title = ""
        self._iterations = 0

    def __enter__(self) -> Self:
        self._line = self._console.status("starting", refresh_per_second=REFRESH_HZ)
        self._line.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._line is not None:
            self._line.stop()

    def run_started(self, arm: str, run: int, runs: int, iterations: int) -> None:
        self._arm, self._iterations, self._times = arm, iterations, []
        self._title = f"{arm}, run {run + 1} of {runs}"
        self.note(f"run {run + 1} of {runs}, {iterations} iterations")

    def iteration(self, index: int, took_ms: float) -> None:
        self._times.append(took_ms)
        if self._line is not None:
            bars = bars_of(self._times[-self.SHOWN :], self.BARS)
            self._line.update(f"{self._title}  iteration {index + 1}/{self._iterations}  {took_ms:7.1f} ms  {bars}")

    def note(self, message: str) -> None:
        from rich.markup import escape

        at = f"[dim]{time.monotonic() - self._began:7.2f} s[/dim]"
        self._console.print(f"{at}  [bold]{self._arm:<9}[/bold] {escape(message)}")


def bars_of(values: list[float], bars: str) -> str:
    """One bar a value; the tallest stands for the largest of them."""
    top = max(values, default=0.0)
    return "".join(bars[round(value / top * (len(bars) - 1))] if top > 0 else bars[0] for value in values)


def display(out: IO[str], *, quiet: bool, plain: bool = False) -> Display:
    """The display that fits where the output goes."""
    if quiet:
        return Quiet()
    return Live(out) if out.isatty() and not plain else Plain(out)
