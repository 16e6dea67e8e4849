"""Processes of a job on their hosts: started at once, their lines in one queue, ended all together."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from io import BufferedReader
from typing import cast

from harness.errors import CommandError, InfraError, R2ccError
from harness.hosts import Host, Process
from harness.hosts.parallel import on_all
from harness.launch.streams import Line, Reader

CHUNK_BYTES = 65536
POLITE_S, SURE_S, PENDING_S = 3.0, 5.0, 10.0
QUOTED = 8


@dataclass(frozen=True)
class Start:
    """One process to start. `shown`: how to name it to people."""

    shown: str
    host: Host
    argv: Sequence[str]
    env: Mapping[str, str]
    reader: Reader
    rank: int | None = None
    """Of a process that is one rank."""


@dataclass
class Started:
    """One that runs. `stopped`: ended by us, so that its exit code says nothing about it."""

    start: Start
    process: Process
    eof: bool = False
    stopped: bool = False
    code: int | None = None

    def reap(self) -> int | None:
        if self.code is None:
            self.code = self.process.poll()
        return self.code

    def errors(self, lines: int = QUOTED) -> str:
        return self.process.stderr_tail(lines)


Spoken = tuple[Started, list[Line] | None]
"""Lines of a process; None: it has closed its output."""


@dataclass
class Processes:
    """A context manager: whatever happens, nothing of it runs on when the block has ended."""

    lines: queue.SimpleQueue[Spoken] = field(default_factory=queue.SimpleQueue)
    running: list[Started] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _pending: int = 0
    _closing: bool = False

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_error: object) -> None:
        self._closing = True
        with ExitStack() as stack:
            stack.callback(self._close)
            self.stop()
            deadline = time.monotonic() + PENDING_S
            while self._pending and time.monotonic() < deadline:  # what is just being started ends itself
                time.sleep(0.01)

    def _close(self) -> None:
        """All of them, whatever becomes of one; closing ends what still runs."""
        with ExitStack() as stack:
            for each in self.running:
                stack.callback(each.process.close)

    def start(self, starts: Sequence[Start]) -> None:
        """All of them at once. InfraError naming every host on which one could not be started."""
        by_key = {f"{number}": one for number, one in enumerate(starts)}
        outcomes = on_all({key: partial(self._one, one) for key, one in by_key.items()})
        errors = [str(outcome.error) for outcome in outcomes.values() if outcome.error is not None]
        if errors:
            raise InfraError("\n".join(dict.fromkeys(errors)), "r2cc hosts check says how every host is reached")

    def _one(self, start: Start) -> None:
        with self._lock:
            self._pending += 1
        try:
            made = Started(start, start.host.spawn(start.argv, env=start.env))
            with self._lock:
                late = self._closing
                if not late:
                    self.running.append(made)
            if late:
                made.process.close()
            else:
                threading.Thread(target=self._read, args=(made,), name=start.shown, daemon=True).start()
        finally:
            with self._lock:
                self._pending -= 1

    def _read(self, made: Started) -> None:
        stream = made.process.stdout
        try:
            while stream is not None and (chunk := cast(BufferedReader, stream).read1(CHUNK_BYTES)):
                self.lines.put((made, made.start.reader(chunk)))
        except (OSError, ValueError):
            pass  # it was closed under us: all has ended
        finally:
            self.lines.put((made, None))

    def stop(self) -> None:
        """Ends them: politely, then for sure; hosts side by side, as one that hangs must not keep the others alive."""
        for ask, patience_s in (("terminate", POLITE_S), ("kill", SURE_S)):
            alive = [each for each in self.running if each.reap() is None]
            for each in alive:
                each.stopped = True
            on_all({f"{number}": partial(_asked, each, ask, patience_s) for number, each in enumerate(alive)})


def _asked(each: Started, ask: str, patience_s: float) -> None:
    with suppress(R2ccError):
        getattr(each.process, ask)()
    with suppress(CommandError):
        each.code = each.process.wait(patience_s)
