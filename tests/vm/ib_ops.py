"""Both ends of one connection of the IB transport, one in each guest, driven step by step by ib_ops_test."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping
from types import TracebackType

from harness.hosts import Process
from harness.vmlab.host import VmHost

ANSWER_S = 30.0
ENVIRONMENT = {
    "NCCL_SOCKET_IFNAME": "mgmt0",
    "NCCL_IB_TIMEOUT": "14",
    "NCCL_IB_RETRY_CNT": "6",
    "NCCL_DEBUG": "WARN",
    "NCCL_DEBUG_FILE": "/dev/stderr",  # standard output is for answers
}
CONNECT_MS = 10000


class End:
    """One end. Every answer is waited for, but never longer than ANSWER_S."""

    def __init__(self, host: VmHost, program: str, *options: str, env: Mapping[str, str] | None = None) -> None:
        self.host = host
        theirs, self._commands = os.pipe2(os.O_CLOEXEC)
        try:
            self.process: Process = host.spawn([program, *options], env={**ENVIRONMENT, **(env or {})}, stdin=theirs)
        finally:
            os.close(theirs)
        self._answers = b""
        self.devices = int(self._answer("start"))

    def send(self, *words: object) -> None:
        os.write(self._commands, " ".join(map(str, words)).encode() + b"\n")

    def ask(self, *words: object) -> str:
        self.send(*words)
        return self._answer(words[0])

    def answer(self) -> str:
        """What a command given with `send` says in the end."""
        return self._answer("send")

    def _answer(self, what: object) -> str:
        deadline = time.monotonic() + ANSWER_S
        assert self.process.stdout is not None
        fd = self.process.stdout.fileno()
        while b"\n" not in self._answers:
            left = deadline - time.monotonic()
            ready = select.select([fd], [], [], max(left, 0))[0]
            data = os.read(fd, 65536) if ready else b""
            tail = "" if data else self.process.stderr_tail()
            assert data, f"{self.host.name}: no answer to {what}: {tail}"
            self._answers += data
        line, self._answers = self._answers.split(b"\n", 1)
        text = line.decode()
        assert not text.startswith("!"), f"{self.host.name}: {what}: {text}"
        return text

    def stop(self) -> None:
        os.close(self._commands)
        self.process.close()

    def __enter__(self) -> End:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def connect(sender: End, receiver: End, device: int = 0, count: int = 16, size: int = 262144) -> None:
    """Makes the connection and the buffers of `count` messages."""
    handle = receiver.ask("listen", device)
    receiver.send("accept", CONNECT_MS)
    assert sender.ask("connect", device, handle, CONNECT_MS) == "up"
    assert receiver.answer() == "up"
    sender.ask("allocate", count, size)
    receiver.ask("allocate", count, size)


def close(*ends: End) -> None:
    for end in ends:
        assert int(end.ask("close")) < 1_000_000, "a close may take a second at most"


def check_counts(sender: End, receiver: End) -> tuple[str, str]:
    """After both ends were drained: what is said is true. Returns both ends' fates, a letter a message."""
    sent, received, contents = sender.ask("settle"), receiver.ask("settle"), receiver.ask("contents")
    assert "s" not in received, f"a size is wrong: {received}"
    for number, (fate, content) in enumerate(zip(received, contents, strict=False)):
        assert fate != "d" or content == "w", f"message {number} is reported, yet not whole: {received} {contents}"
    for number, (at_sender, at_receiver) in enumerate(zip(sent, received, strict=False)):
        assert at_sender != "d" or at_receiver == "d", f"message {number} is lost: {sent} {received}"
    return sent, received
