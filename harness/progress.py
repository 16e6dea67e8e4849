"""Tells a waiting human what is going on: nothing for what is quick, a sign of life for what takes over two seconds."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TextIO

import click

from harness.schemas import CHECKED

QUIET = "harness.progress.quiet"
"""Where click's context keeps what the command that runs was given of `--quiet`."""
ROOT = "cli"
"""The command of harness/cli.py, in click's words: a benchmark's own command need not know `--quiet`."""
FIRST_SIGN_S = 1.5
TERMINAL_PERIOD_S = 0.25
LOG_PERIOD_S = 10.0

Progress = Callable[[str], AbstractContextManager["Step"]]
"""What long work is given: `with progress("compiling") as step: step.update("3 of 20")`."""


class Step:
    """One piece of work. A terminal gets one line that is redrawn; a log file gets a line now and then.

    A thread of its own draws, so that work which blocks in a child process still shows that time passes.
    """

    def __init__(self, title: str, stream: TextIO | None = None, quiet: bool = False) -> None:
        self.title = title
        self.detail = ""
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._draw_until_stopped, name="progress", daemon=True)
        self._shown = False

    def __enter__(self) -> Step:
        self._start_s = time.monotonic()
        if not self._quiet:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if not self._quiet:
            self._thread.join()
        if self._shown:
            self._line("done" if error is None else "failed", end="\n")

    def update(self, detail: str) -> None:
        """How far the work is; shown at the next redraw."""
        self.detail = detail

    def _draw_until_stopped(self) -> None:
        wait_s = FIRST_SIGN_S
        while not self._stop.wait(wait_s):
            self._shown = True
            terminal = self._stream.isatty()
            self._line(self.detail, end="" if terminal else "\n")
            wait_s = TERMINAL_PERIOD_S if terminal else LOG_PERIOD_S

    def _line(self, detail: str, end: str) -> None:
        elapsed_s = time.monotonic() - self._start_s
        start = "\r\033[K" if self._stream.isatty() else ""
        middle = f": {detail}" if detail else ""
        print(f"{start}{self.title}{middle} ({elapsed_s:.0f} s)", end=end, file=self._stream, flush=True)


def show(title: str) -> Step:
    """Progress on stderr; none when the command that runs was given `--quiet`. In tests, ours must have it."""
    context = click.get_current_context(silent=True)
    if context is None:
        return Step(title)
    if QUIET not in context.meta and CHECKED in os.environ and context.find_root().command.name == ROOT:
        raise AssertionError(f"`{context.command_path}` shows progress ({title}), and has no quiet_option()")
    return Step(title, quiet=context.meta.get(QUIET, False))


def silent(title: str) -> Step:
    """No progress at all, for --quiet and for tests."""
    return Step(title, quiet=True)
