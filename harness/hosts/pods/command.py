"""How a command is started in a pod, and how its output comes back: one `kubectl exec` each."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import IO

from harness.errors import CommandError, ReachError
from harness.hosts.commands import start_error
from harness.hosts.pods.target import PodTarget, failed, no_kubectl
from harness.hosts.remote import CHUNK, MOST_NOISE, PID_LINE, START, Sink, preamble

START_S = 30.0
"""Kubernetes' API, the node's kubelet and its runtime all take part in a start."""
END_S = 5.0
ENDED = b"command terminated with exit code "
"""What kubectl itself says last, on stderr, of a command that ended with another code than 0. Without it, kubectl
failed: a connection was lost, or there is no such pod."""
ENDED_LINE = re.compile(rb"command terminated with exit code (\d+)\s*")


class Executed:
    """A started command: `pid` in its container's process namespace, where it leads a group."""

    def __init__(self, target: PodTarget, argv: Sequence[str], env: Mapping[str, str] | None) -> None:
        if not argv or any("\0" in word for word in argv):
            raise CommandError(f"{target.name}: an empty command, or one with NUL, was given", "give a program")
        words = preamble(target.name, env)
        self._target = target
        self._kubectl = _started(target.exec(["sh", "-c", START, "r2cc", *argv]))
        self._held = b""
        self._code: int | None = None
        try:
            self.pid, self._rest = self._begin(argv, words)
        except BaseException:
            self.close()
            raise

    def _begin(self, argv: Sequence[str], words: bytes) -> tuple[int, bytes]:
        stdin, stdout = _pipe(self._kubectl.stdin), _pipe(self._kubectl.stdout)
        with suppress(BrokenPipeError):
            stdin.write(words)
            stdin.flush()
        deadline, received = time.monotonic() + START_S, b""
        with selectors.DefaultSelector() as ready:
            ready.register(stdout, selectors.EVENT_READ)
            while (found := PID_LINE.search(received)) is None:
                left_s = deadline - time.monotonic()
                if left_s <= 0 or not ready.select(left_s):
                    raise lost(self._target, f"no command started within {START_S:g} s")
                chunk = os.read(stdout.fileno(), CHUNK)
                if not chunk or len(received) > MOST_NOISE:
                    raise self._no_start(received)
                received += chunk
        if found[1] == b"none":
            raise start_error(self._target.name, argv, FileNotFoundError(2, "No such file or directory"))
        return int(found[1]), received[found.end() :]

    def _no_start(self, received: bytes) -> ReachError | CommandError:
        """kubectl failed, or the container has no shell."""
        self._kubectl.kill()
        said = (received + _pipe(self._kubectl.stderr).read()).decode(errors="replace")
        shown = f"{self._target.name}: {self._target.shown}"
        if ENDED.decode() in said or "no such file" in said or "executable file not found" in said:
            last = " / ".join(said.strip().splitlines()[-2:])
            return CommandError(f"{shown} runs no commands: {last}", "its image needs a shell (sh)")
        return failed(shown, said)

    def write(self, chunks: Iterable[bytes]) -> None:
        stdin = _pipe(self._kubectl.stdin)
        with suppress(OSError, ValueError):  # it has ended, or was closed meanwhile
            for chunk in chunks:
                stdin.write(chunk)
                stdin.flush()
            stdin.close()

    def pump(self, out: Sink, err: Sink, timeout_s: float | None = None) -> bool:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        if self._rest:
            out(self._rest)
            self._rest = b""
        with selectors.DefaultSelector() as ready:
            ready.register(_pipe(self._kubectl.stdout), selectors.EVENT_READ, out)
            ready.register(_pipe(self._kubectl.stderr), selectors.EVENT_READ, lambda data: self._errors(data, err))
            while ready.get_map():
                left_s = None if deadline is None else deadline - time.monotonic()
                if left_s is not None and left_s <= 0:
                    return False
                for key, _ in ready.select(left_s):
                    chunk = os.read(key.fd, CHUNK)
                    if chunk:
                        key.data(chunk)
                    else:
                        ready.unregister(key.fileobj)
        self._code = self._told(self._kubectl.wait(), err)
        return True

    def _errors(self, data: bytes, err: Sink) -> None:
        """Holds back what may be kubectl's own last line."""
        self._held += data
        begins = self._held.rfind(b"\n", 0, len(self._held.rstrip(b"\n"))) + 1
        keep = self._held[begins:]
        if not keep.startswith(ENDED[: len(keep)]):
            begins = len(self._held)
        if begins:
            err(self._held[:begins])
            self._held = self._held[begins:]

    def _told(self, code: int, err: Sink) -> int | None:
        if code == 0:
            return 0
        found = ENDED_LINE.fullmatch(self._held)
        if found is None:
            if self._held:
                err(self._held)
            return None
        return as_signal(int(found[1]))

    def exit_code(self) -> int | None:
        """None: kubectl itself ended, and nobody knows what became of the command."""
        return self._code

    def close(self) -> None:
        if self._kubectl.poll() is None:
            self._kubectl.kill()
        self._kubectl.wait(END_S)
        for pipe in (self._kubectl.stdin, self._kubectl.stdout, self._kubectl.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def as_signal(code: int) -> int:
    """A runtime says 128 + N of a command that signal N ended, which is -N elsewhere here."""
    try:
        return -signal.Signals(code - 128)
    except ValueError:
        return code


def lost(target: PodTarget, why: str = "") -> ReachError:
    from harness.errors import PodError

    message = f"{target.name}: {target.shown} was lost" + (f": {why}" if why else "")
    return PodError("lost", message, "kubectl get pods says whether it runs; what ran there may still run")


def _started(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """In a session of its own: Ctrl-C is for us, who may have something to undo."""
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
    except FileNotFoundError as error:
        raise no_kubectl() from error


def _pipe(file: IO[bytes] | None) -> IO[bytes]:
    assert file is not None
    return file
