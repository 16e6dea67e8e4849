"""Ctrl-C at any moment of a command: one line, exit code 130, no traceback. Imports next to nothing.

While modules are imported nothing has been started: the process ends at once. From a command's first line on, Ctrl-C is
the exception KeyboardInterrupt, so that what was started is ended and what was broken is healed. SIGTERM (a time limit,
a scheduler) and SIGHUP (a terminal that was closed) are the same, of every command.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

EXIT_CODE = 130
LINE = "r2cc: interrupted\n"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TWICE_S = 1.0
AGAIN_S = 0.005
_raised: list[float] = []
"""When SIGTERM or SIGHUP came last."""
_ours: list[Any] = []
"""The handler that ends at once, while it is in place."""


def end_at_once(code: int = EXIT_CODE, line: str = LINE) -> None:
    """From now on Ctrl-C says `line` and ends this process with `code`. A signal that is ignored goes on being so."""

    def ended(_number: int, _frame: FrameType | None) -> None:
        os.write(2, (f"\n{line}" if line and os.isatty(2) else line).encode())
        os._exit(code)

    _handle(ended)
    _ours[:] = [ended]


def raise_it() -> None:
    """From now on Ctrl-C is KeyboardInterrupt; only where `end_at_once` was in place."""
    if _ours and any(signal.getsignal(number) is _ours[0] for number in SIGNALS):
        sys.unraisablehook = _raise_again
        _handle(_raise)
    _ours.clear()


def ignore_at_last() -> None:
    """When Python takes itself down, after all that may take long: it would put the default back, which kills."""
    atexit.register(_handle, signal.SIG_IGN)


def unblock() -> None:
    """Lets through what was held back since before Python started (scripts/r2cc)."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def terminable() -> Iterator[None]:
    """For who calls us from Python: SIGTERM and SIGHUP roll everything back, as Ctrl-C does; not in other threads."""
    old = {number: signal.getsignal(number) for number in SIGNALS[1:]}
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _raised.clear()
    _handle(_raise, SIGNALS[1:])
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _raise(number: int, frame: FrameType | None) -> None:
    """`timeout` sends SIGTERM to a process and to its group, a terminal SIGHUP twice: the second one must not keep what
    the first one began from being healed. Ctrl-C is a person, who means it each time."""
    if _within(_raise_again, frame):  # where it would be dropped once more, and for good
        _send_again(number)
        return
    if number != signal.SIGINT:
        before, _raised[:] = [*_raised], [time.monotonic()]
        if before and _raised[0] - before[0] < TWICE_S:
            return
    raise KeyboardInterrupt


def _handle(handler: Any, signals: Sequence[signal.Signals] = SIGNALS) -> None:
    """Of those that are not ignored, as nohup does."""
    for number in signals:
        if signal.getsignal(number) is signal.SIG_IGN:
            continue
        try:
            signal.signal(number, handler)
        except ValueError:
            return  # in a thread that is not the main one


def _raise_again(unraisable: Any) -> None:
    """Ctrl-C in a place whose errors Python drops, as a weak reference's callback, would be a traceback and no more."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    _raised.clear()
    _send_again(next(number for number in SIGNALS if signal.getsignal(number) is _raise))


def _send_again(number: int) -> None:
    """To this thread, by another one: when this one has gone on."""
    import _thread

    _thread.start_new_thread(_send, (_thread.get_ident(), number))


def _send(thread: int, number: int) -> None:
    time.sleep(AGAIN_S)
    signal.pthread_kill(thread, number)


def _within(function: Callable[..., Any], frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame is not None
