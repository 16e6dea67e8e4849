"""Processes on hosts: started at once, their lines in one queue, all of them ended whatever becomes of one."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import IO, NamedTuple, cast

from harness.errors import CommandError, R2ccError
from harness.hosts import Host, Process
from harness.hosts.base import spawn_held
from harness.hosts.commands import last_lines
from harness.hosts.parallel import all_of, on_all
from harness.launch.streams import Line, Reader

CHUNK_BYTES = 65536
POLITE_S, SURE_S, PENDING_S = 3.0, 5.0, 10.0
QUOTED = 8
BACKLOG_BYTES = 64 << 20
PRESSING = 0.125
"""Of a full backlog: more than that is heard at once."""
LISTENS_S = 0.5
OWN_SESSION = ("setsid",)
MERGED = ("sh", "-c", 'exec "$@" 2>&1', "r2cc")


@dataclass(frozen=True)
class Start:
    """One process to start. `shown`: its name for people."""

    shown: str
    host: Host
    argv: Sequence[str]
    env: Mapping[str, str]
    reader: Reader | None
    """None: in the foreground; its input and output are the user's."""
    rank: int | None = None
    """Of a process that is one rank."""
    stderr: Path | None = None
    """The file that gets what it says there; None: the last lines are kept."""
    own_session: bool = False
    """Ctrl-C of a terminal is for us alone, and what it started on this machine is ended with it."""
    merged: bool = False
    """What it says on stderr is read as well, where it was said."""

    def words(self) -> list[str]:
        """The command with what stands before it."""
        return [*(OWN_SESSION if self.own_session else ()), *(MERGED if self.merged else ()), *self.argv]


@dataclass
class Started:
    """One that runs. `stopped`: ended by us, so that its exit code says nothing about it."""

    start: Start
    process: Process
    input: IO[bytes] | None
    """Its stdin, which says nothing and ends with us: what watches it does not outlive us. None: it has the user's."""
    eof: bool = False
    stopped: bool = False
    code: int | None = None

    def reap(self) -> int | None:
        if self.code is None:
            self.code = self.process.poll()
        return self.code

    def finish(self) -> None:
        """Waits for the exit code of one that has closed its output; one that stays is ended."""
        try:
            self.code = self.process.wait(SURE_S)
        except CommandError:
            _end([self])

    def errors(self, lines: int = QUOTED) -> str:
        """The last lines that it said on stderr."""
        if self.start.stderr is None:
            return self.process.stderr_tail(lines)
        return last_lines(self.start.stderr.read_text(errors="replace"), lines) if self.start.stderr.exists() else ""

    def close(self) -> None:
        """Ends it if it still runs."""
        try:
            self.process.close()
        finally:
            if self.input is not None:
                self.input.close()

    def signal(self, number: signal.Signals) -> None:
        """To all of its session, where it has one of its own."""
        if self.start.own_session:
            with suppress(ProcessLookupError):  # it has not got as far, or is no more
                return os.killpg(self.process.pid, number)
        self.process.send_signal(number)


class Spoken(NamedTuple):
    """Lines of a process; None: it has closed its output. `at_ns`: when they were read, CLOCK_MONOTONIC."""

    speaker: Started
    lines: list[Line] | None
    at_ns: int


class Backlog:
    """What was read and not yet heard, of any number of processes. A program that prints faster has to wait.

    Who listens is woken by every line, or, where it is `patient`, once for all that come in a while: waking costs more
    than most lines do.
    """

    def __init__(self, most_bytes: int = BACKLOG_BYTES) -> None:
        self._most_bytes = most_bytes
        self._waiting: deque[tuple[Spoken, int]] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._patient = False
        self._pressing = False
        """Something waits that the patient hear at once, too."""

    def put(self, spoken: Spoken, size_bytes: int, over: Callable[[], bool]) -> None:
        """Waits for room, but not when all is `over`."""
        with self._changed:
            while self._bytes > self._most_bytes and not over():
                self._changed.wait(LISTENS_S)
            self._waiting.append((spoken, size_bytes))
            self._bytes += size_bytes
            self._pressing |= spoken.lines is None or self._bytes > self._most_bytes * PRESSING
            if self._pressing or not self._patient:
                self._changed.notify_all()

    def get(self, timeout_s: float = 0.0, *, patient: bool = False) -> Spoken:
        """The oldest. queue.Empty when none came in time. `patient`: takes all that time, unless a process has closed
        its output, or much waits."""
        with self._changed:
            if patient:
                self._patient = True
                self._changed.wait_for(lambda: self._pressing, timeout_s)
                self._patient, timeout_s = False, 0.0
            if not self._changed.wait_for(lambda: bool(self._waiting), timeout_s):
                raise queue.Empty
            spoken, size_bytes = self._waiting.popleft()
            self._pressing &= bool(self._waiting)
            self._bytes -= size_bytes
            if self._bytes + size_bytes > self._most_bytes >= self._bytes:
                self._changed.notify_all()
            return spoken


@dataclass
class Processes:
    """A context manager: whatever happens, nothing of it runs on when the block has ended."""

    lines: Backlog = field(default_factory=Backlog)
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
                stack.callback(each.close)

    def start(self, starts: Sequence[Start]) -> None:
        """All of them at once; `running` has their order. InfraError naming every host on which one could not be
        started."""
        work = {f"{number}": partial(self._one, one) for number, one in enumerate(starts)}
        all_of(work, "r2cc hosts check says how every host is reached")
        order = {id(one): number for number, one in enumerate(starts)}
        self.running.sort(key=lambda made: order[id(made.start)])

    def _one(self, start: Start) -> None:
        with self._lock:
            self._pending += 1
        try:
            made = _started(start)
            with self._lock:
                late = self._closing
                if not late:
                    self.running.append(made)
            if late:
                made.close()
            elif start.reader is not None:
                threading.Thread(target=self._read, args=(made, start.reader), name=start.shown, daemon=True).start()
        finally:
            with self._lock:
                self._pending -= 1

    def _read(self, made: Started, reader: Reader) -> None:
        stream = made.process.stdout
        try:
            while stream is not None and (chunk := cast(BufferedReader, stream).read1(CHUNK_BYTES)):
                self._say(made, reader(chunk), len(chunk))
            self._say(made, [(rank, line) for rank, line in reader(b"") if line])
        except (OSError, ValueError):
            pass  # it was closed under us: all has ended
        finally:
            self._say(made, None)

    def _say(self, made: Started, lines: list[Line] | None, size_bytes: int = 0) -> None:
        self.lines.put(Spoken(made, lines, time.monotonic_ns()), size_bytes, lambda: self._closing)

    def heard(self, timeout_s: float, *, patient: bool = False) -> Iterator[Spoken]:
        """What comes in time, and what waits behind it. One that has closed its output is marked so."""
        with suppress(queue.Empty):
            while True:
                spoken = self.lines.get(timeout_s, patient=patient)
                spoken.speaker.eof |= spoken.lines is None
                yield spoken
                timeout_s, patient = 0.0, False

    def stop(self) -> None:
        """Ends them. Raises what kept one from it, when all others have been."""
        _end(self.running)


def _started(start: Start) -> Started:
    if start.reader is None:
        return Started(start, start.host.spawn(start.words(), env=start.env, stdin=0, stdout=1, stderr=2), None)
    with nullcontext() if start.stderr is None else start.stderr.open("wb") as file:
        process, ours = spawn_held(start.host, start.words(), start.env, file)
    return Started(start, process, os.fdopen(ours, "wb"))


def _end(running: Sequence[Started]) -> None:
    """Politely, then for sure; hosts side by side: one that is lost keeps nothing of another one alive."""
    errors: dict[int, R2ccError] = {}
    for ask, patience_s in ((signal.SIGTERM, POLITE_S), (signal.SIGKILL, SURE_S)):
        alive = {number: each for number, each in enumerate(running) if each.reap() is None}
        for each in alive.values():
            each.stopped = True
        asked = on_all({f"{number}": partial(_asked, each, ask, patience_s) for number, each in alive.items()})
        errors = {number: error for number in alive if (error := asked[f"{number}"].error) is not None}
    for error in errors.values():
        raise error


def _asked(each: Started, ask: signal.Signals, patience_s: float) -> None:
    try:
        each.signal(ask)
    finally:
        with suppress(CommandError):
            each.code = each.process.wait(patience_s)
        if each.code is not None and each.start.own_session:  # what it left behind
            with suppress(ProcessLookupError):
                os.killpg(each.process.pid, signal.SIGKILL)
