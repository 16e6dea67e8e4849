"""What a user sees while an experiment runs: a live grid of NICs on a terminal, plain timestamped lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from chaos.faults.spec import FaultSpec
from chaos.record.grid import Grid, view
from chaos.record.journal import now_ns
from harness.units import nth
from harness.workloads.kinds.workload import UNKNOWN

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live as RichLive

REFRESH_HZ = 4
"""Seldom: the machine that is watched is the one that is measured."""


class Display:
    """Told what happens; shows nothing of it, as `--quiet` asks for."""

    def run_started(self, arm: str, run: int, runs: int, iterations: int) -> None: ...
    def iteration(self, index: int, took_ms: float) -> None: ...
    def line(self, line: Mapping[str, Any]) -> None:
        """Every line of the journal, as it is written: many a second, so whatever is done must be little."""

    def note(self, message: str) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Plain(Display):
    """One timestamped line for everything, for logs and pipes; of NICs, what changes."""

    def __init__(self, out: IO[str], faults: Sequence[FaultSpec] = ()) -> None:
        self._out = out
        self._began = time.monotonic()
        self._arm = ""
        outages = {fault.id: [ends - begins for begins, ends in fault.cycles] for fault in faults if not fault.forever}
        self._grid = Grid(outages)

    def run_started(self, arm: str, run: int, runs: int, iterations: int) -> None:
        self._arm = arm
        self.note(begun(run, runs, iterations))

    def iteration(self, index: int, took_ms: float) -> None:
        self.note(f"iteration {index:>3}  {took_ms:9.1f} ms")

    def line(self, line: Mapping[str, Any]) -> None:
        told = self._grid.feed(line)
        if told is not None:
            self.note(told)

    def note(self, message: str) -> None:
        print(f"[{time.monotonic() - self._began:7.2f} s] {self._arm:<9} {message}", file=self._out, flush=True)


class Live(Plain):
    """On a terminal: a line that moves (arm, iteration, its time, recent times as bars), the grid of NICs below it, and
    what happened above it."""

    BARS = " ▁▂▃▄▅▆▇█"
    SHOWN = 32

    def __init__(self, out: IO[str], faults: Sequence[FaultSpec] = ()) -> None:
        from rich.console import Console

        super().__init__(out, faults)
        self._console = Console(file=out, highlight=False)
        self._live: RichLive | None = None
        self._lock = threading.Lock()
        self._times: list[float] = []
        self._title = self._moving = "starting"
        self._iterations: int | None = None

    def __enter__(self) -> Self:
        from rich.live import Live as RichLive

        self._live = RichLive(
            console=self._console, get_renderable=self._view, refresh_per_second=REFRESH_HZ, transient=True
        )
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def _view(self) -> RenderableType:
        """Called by rich's own thread, too."""
        from rich.console import Group
        from rich.text import Text

        with self._lock:
            rows = max(1, self._console.height - len(self._grid.faults) - 4)
            return Group(Text(self._moving, no_wrap=True), view(self._grid, now_ns(), rows))

    def line(self, line: Mapping[str, Any]) -> None:
        with self._lock:
            self._grid.feed(line)

    def run_started(self, arm: str, run: int, runs: int, iterations: int) -> None:
        self._arm, self._times = arm, []
        self._iterations = None if iterations >= UNKNOWN else iterations
        self._title = self._moving = f"{arm}, {nth('run', run, runs)}"
        self.note(begun(run, runs, iterations))

    def iteration(self, index: int, took_ms: float) -> None:
        self._times.append(took_ms)
        bars = bars_of(self._times[-self.SHOWN :], self.BARS)
        self._moving = f"{self._title}  {nth('iteration', index, self._iterations)}  {took_ms:7.1f} ms  {bars}"

    def note(self, message: str) -> None:
        from rich.markup import escape

        at = f"[dim]{time.monotonic() - self._began:7.2f} s[/dim]"
        self._console.print(f"{at}  [bold]{self._arm:<9}[/bold] {escape(message)}")


def begun(run: int, runs: int, iterations: int) -> str:
    """Of a program that is not ours nobody knows how many iterations it has."""
    return nth("run", run, runs) + ("" if iterations >= UNKNOWN else f", {iterations} iterations")


def bars_of(values: list[float], bars: str) -> str:
    """One bar a value; the tallest stands for the largest of them."""
    top = max(values, default=0.0)
    return "".join(bars[round(value / top * (len(bars) - 1))] if top > 0 else bars[0] for value in values)


def display(out: IO[str], *, quiet: bool, plain: bool = False, faults: Sequence[FaultSpec] = ()) -> Display:
    """The display that fits where the output goes; of `faults`, it counts down until they are undone."""
    if quiet:
        return Display()
    return Live(out, faults) if out.isatty() and not plain else Plain(out, faults)
