"""Ctrl-C at any moment of a command: one line, exit code 130, no traceback. Imports next to nothing.

While modules are imported nothing has been started: the process ends at once. From a command's first line on, Ctrl-C is
the exception KeyboardInterrupt, so that what was started is ended and what was broken is healed.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

EXIT_CODE = 130
LINE = "r2cc: interrupted\n"
_ours: list[Any] = []
"""The handler that ends at once, while it is in place."""


def end_at_once(code: int = EXIT_CODE, line: str = LINE) -> None:
    """From now on Ctrl-C says `line` and ends this process with `code`. Who ignores Ctrl-C goes on ignoring it."""

    def ended(_number: int, _frame: FrameType | None) -> None:
        os.write(2, (f"\n{line}" if line and os.isatty(2) else line).encode())
        os._exit(code)

    _handle(ended)
    _ours[:] = [ended]


def raise_it() -> None:
    """From now on Ctrl-C is KeyboardInterrupt; only where `end_at_once` was in place."""
    if _ours and signal.getsignal(signal.SIGINT) is _ours[0]:
        sys.unraisablehook = _raise_again
        _handle(signal.default_int_handler)
    _ours.clear()


def ignore_at_last() -> None:
    """When Python takes itself down, after all that may take long: it would put the default back, which kills."""
    atexit.register(_handle, signal.SIG_IGN)


def unblock() -> None:
    """Lets through what was held back since before Python started (scripts/r2cc)."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM and SIGHUP roll everything back, as Ctrl-C does. Does nothing outside of the main thread (tests)."""

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    try:
        old = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _handle(handler: Any) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    try:
        signal.signal(signal.SIGINT, handler)
    except ValueError:
        return  # in a thread that is not the main one


def _raise_again(unraisable: Any) -> None:
    """Ctrl-C in a place whose errors Python drops, as a weak reference's callback, would be a traceback and no more."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    import _thread

    _thread.start_new_thread(signal.pthread_kill, (_thread.get_ident(), signal.SIGINT))
