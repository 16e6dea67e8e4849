"""Running processes whose stdout lines arrive, whoever prints them, in one queue."""

from __future__ import annotations

import json
import os
import queue
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, cast

from chaos.testbed.launch import Launch
from harness.errors import CommandError, R2ccError
from harness.hosts import Host, Process
from harness.hosts.parallel import on_all

TERMINATE_S = 2.0
EXIT_S = 5.0
CHUNK_BYTES = 65536


@dataclass(frozen=True)
class Spoken:
    """A line that a process printed; `line` is None when it closed its stdout."""

    speaker: Running
    line: bytes | None


class Running:
    """A started Launch. Its stdout is read by a thread of its own, so that no process ever waits for the controller."""

    def __init__(self, launch: Launch, host: Host, lines: queue.SimpleQueue[Spoken], stderr: IO[bytes]) -> None:
        self.launch = launch
        self.exit_code: int | None = None
        self.eof = False
        self.stopped = False
        """Ended by us: its exit code says nothing about it."""
        self.process: Process = _spawn(launch, host, stderr)
        self._reader = threading.Thread(target=self._read, args=(lines,), name=launch.name, daemon=True)
        self._reader.start()

    def _read(self, lines: queue.SimpleQueue[Spoken]) -> None:
        stream = self.process.stdout
        try:
            if stream is not None:
                rest = b""
                while chunk := cast(BufferedReader, stream).read1(CHUNK_BYTES):
                    *whole, rest = (rest + chunk).split(b"\n")
                    for line in whole:
                        lines.put(Spoken(self, line))
                if rest:
                    lines.put(Spoken(self, rest))
        except (OSError, ValueError) as error:
            note = {"event": "log", "message": f"{self.launch.name}: cannot read its output: {error}"}
            lines.put(Spoken(self, json.dumps(note).encode()))
        finally:
            if stream is not None:
                stream.close()
            lines.put(Spoken(self, None))

    def reap(self) -> int | None:
        """Its exit code; None while it runs."""
        if self.exit_code is None:
            self.exit_code = self.process.poll()
        return self.exit_code

    def finish(self) -> None:
        """Waits for the exit code of a process that has closed its stdout; one that stays is ended."""
        try:
            self.exit_code = self.process.wait(EXIT_S)
        except CommandError:
            stop_all([self])


def _spawn(launch: Launch, host: Host, stderr: IO[bytes]) -> Process:
    """Starts it with a stdin that never says anything and ends with us: a sampler that outlived us would never end."""
    theirs, ours = os.pipe2(os.O_CLOEXEC)
    try:
        process = host.spawn(launch.argv, env=launch.env, stderr=stderr, stdin=theirs)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    weakref.finalize(process, os.close, ours)
    return process


def stop_all(running: Sequence[Running]) -> None:
    """Ends them by their own handles: all politely, then, those that stay, for sure. Nothing happens to ended ones.

    Hosts are asked side by side: one that is lost keeps no rank of another one alive. Its error is raised afterwards.
    """
    errors: dict[int, R2ccError] = {}
    for ask, patience_s in (("terminate", TERMINATE_S), ("kill", EXIT_S)):
        alive = {index: each for index, each in enumerate(running) if each.reap() is None}
        asked = on_all({str(index): partial(_ask, each, ask, patience_s) for index, each in alive.items()})
        for index in alive:
            errors.pop(index, None)
            if (error := asked[str(index)].error) is not None:
                errors[index] = error
    for error in errors.values():
        raise error


def _ask(each: Running, ask: str, patience_s: float) -> None:
    each.stopped = True
    try:
        getattr(each.process, ask)()
    finally:
        with suppress(CommandError):
            each.exit_code = each.process.wait(patience_s)


def start(launch: Launch, host: Host, lines: queue.SimpleQueue[Spoken], stderr: Path) -> Running:
    """Starts one process; what it says on stderr goes to a file of its own."""
    stderr.parent.mkdir(parents=True, exist_ok=True)
    with stderr.open("wb") as file:
        return Running(launch, host, lines, file)


def parse(line: bytes) -> dict[str, Any] | None:
    """A line of the common schema, or None: cut short by a crash, or not for us."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    good = isinstance(value, dict) and isinstance(value.get("event"), str) and isinstance(value.get("t_ns"), int)
    return value if good else None
