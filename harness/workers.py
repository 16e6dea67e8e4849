"""Processes of this machine that share a command's work, and end with it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import Any

from harness.errors import InfraError
from harness.interrupts import SIGNALS

MANAGER_S = 5.0


class Workers(ProcessPoolExecutor):
    """Starts them, which happens in `submit`, while signals are kept back: until a worker has said what they mean to
    it, a new one would be ended by Ctrl-C with a traceback, and a copy would answer as we do."""

    kept_back: Sequence[signal.Signals] = ()

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        with _kept_back(self.kept_back):
            return super().submit(*args, **kwargs)


@contextmanager
def crew(
    count: int,
    *,
    fork: bool = False,
    begin: Callable[..., None] | None = None,
    given: Sequence[Any] = (),
    hint: str = "run it again",
) -> Iterator[Workers]:
    """So many workers, none of which outlives the block or this process, whatever ends them.

    New ones share nothing. `fork` makes them copies of this process, which is sooner: for a process without threads
    alone, as they take over locks. `begin` is called in each with `given`. Submit in the main thread.

    Raises InfraError, with `hint`, when one ends that was given work: where memory is short, the kernel ends some.
    """
    context = get_context("fork" if fork else "spawn")
    with _kept_back(SIGNALS):  # by a process, too, that Python starts here, and which survives all of them but SIGHUP
        executor = Workers(count, context, initializer=_begun, initargs=(fork, begin, given))
    executor.kept_back = SIGNALS if fork else (signal.SIGINT,)
    try:
        yield executor
    except BrokenProcessPool as error:
        raise InfraError("a worker process ended (was it out of memory?)", hint) from error
    finally:
        processes = list((getattr(executor, "_processes", None) or {}).values())
        manager = getattr(executor, "_executor_manager_thread", None)
        executor.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()
        if manager is not None:  # Python, as it ends, would wake it up while it closes what wakes it, with a traceback
            manager.join(MANAGER_S)


@contextmanager
def _kept_back(numbers: Sequence[signal.Signals]) -> Iterator[None]:
    """From this thread, and from processes that it starts."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begun(fork: bool, begin: Callable[..., None] | None, given: Sequence[Any]) -> None:
    """A worker's first act. Ctrl-C is its parent's business; the other signals end it without a word."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if fork:
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    if begin is not None:
        begin(*given)


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)
