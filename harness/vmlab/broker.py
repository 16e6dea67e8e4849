"""The keeper's side of one guest's agent: clients' commands on one wire, their files read and written here."""

from __future__ import annotations

import json
import os
import select
import socket
import stat
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from harness.lab import wire
from harness.vmlab.inside.frames import CHUNK, WINDOW, Kind, Parser, frame

COUNT = struct.Struct("<Q")
OFFSET = struct.Struct("<q")
PIPE_CHUNK = 4096
"""A pipe that is ready takes this much without making us wait (PIPE_BUF)."""
LAST_WORDS_S = 0.5
"""How long the end of a command is held back for output that its client does not take."""

Handler = Callable[[], None]
Wanted = dict[int, tuple[int, Handler]]
"""File to poll events and what to do then."""


class Output:
    """One of a client's files that a command writes to."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.waiting = bytearray()
        self.plain_file = stat.S_ISREG(os.fstat(fd).st_mode)

    def write_some(self) -> int:
        """Bytes that went. What nobody reads any more is thrown away."""
        size = len(self.waiting) if self.plain_file else PIPE_CHUNK
        try:
            written = os.write(self.fd, self.waiting[:size])
        except BlockingIOError:
            return 0
        except OSError:
            written = len(self.waiting)
        del self.waiting[:written]
        return written


class Client:
    """One command of one client, from its request until both the guest and the client are done with it."""

    def __init__(self, number: int, link: socket.socket, fds: list[int]) -> None:
        self.number = number
        self.link: socket.socket | None = link
        self.stdin: int | None = fds[0]
        self.outputs = {Kind.STDOUT: Output(fds[1]), Kind.STDERR: Output(fds[2])}
        self.room = WINDOW
        self.exit_code: int | None = None
        self.exit_by = 0.0
        self.open = True

    def has_output(self) -> bool:
        return any(output.waiting for output in self.outputs.values())

    def tell(self, message: Mapping[str, Any]) -> None:
        if self.link is not None:
            with suppress(OSError):
                wire.send(self.link, dict(message))

    def close(self) -> None:
        if not self.open:
            return
        self.open = False
        if self.link is not None:
            self.link.close()
            self.link = None
        for fd in (self.stdin, *(output.fd for output in self.outputs.values())):
            if fd is not None:
                os.close(fd)
        self.stdin = None


class Broker:
    """All commands of one guest. The keeper polls what `wanted` names."""

    def __init__(self, host: str, port: socket.socket) -> None:
        self.host = host
        self.facts: dict[str, Any] | None = None
        self.alive = True
        self._port = port
        self._parser = Parser()
        self._unsent = bytearray()
        self._clients: dict[int, Client] = {}
        self._next = 1
        self._clock_asked_ns: dict[int, int] = {}
        self.clock: tuple[int, int] | None = None
        """Guest minus us and the largest error of that, in ns; of the best exchange since it was last cleared."""
        self.clock_set: str | None = None
        """Empty once the guest keeps our time; why not, if it cannot; None before it was asked."""
        port.setblocking(False)

    def start(self, request: Mapping[str, Any], link: socket.socket, fds: list[int]) -> None:
        """Starts a command for a client; takes over the client's socket and files."""
        client = Client(self._next, link, fds)
        self._next += 1
        if not self.alive:
            client.tell({"errno": 112, "error": "the guest is down"})
            client.close()
            return
        self._clients[client.number] = client
        payload = {"argv": request["argv"], "env": request["env"]}
        self._send(Kind.START, client.number, json.dumps(payload).encode())

    def ask_clock(self) -> None:
        """One exchange of clocks; the best of all answers is kept in `clock`."""
        if self.alive:
            number = self._next
            self._next += 1
            self._clock_asked_ns[number] = time.monotonic_ns()
            self._send(Kind.CLOCK, number)

    def set_clock(self) -> None:
        """Has the guest's commands run on our CLOCK_MONOTONIC, as well as the exchanges so far tell."""
        assert self.clock is not None
        self._send(Kind.SET_CLOCK, 0, OFFSET.pack(-self.clock[0]))
        self.clock = None

    def clock_answers_due(self) -> bool:
        return bool(self._clock_asked_ns)

    def wanted(self) -> Wanted:
        """What to poll for, and what to do then; nothing that could not be used now."""
        wanted: Wanted = {}
        if self.alive:
            events = select.POLLIN | (select.POLLOUT if self._unsent else 0)
            wanted[self._port.fileno()] = (events, self._serve_port)
        for client in self._clients.values():
            self._add(wanted, client)
        return wanted

    def deadline(self) -> float | None:
        """When `tick` is due."""
        return min((c.exit_by for c in self._clients.values() if c.exit_code is not None and c.link), default=None)

    def tick(self) -> None:
        for client in list(self._clients.values()):
            self._settle(client)

    def lost(self) -> None:
        """The guest is gone: every command in it has ended."""
        self.alive = False
        self._port.close()
        for client in list(self._clients.values()):
            client.exit_code = client.exit_code if client.exit_code is not None else -9
            client.exit_by = 0.0
            self._settle(client)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        self.alive = False
        self._port.close()

    def _add(self, wanted: Wanted, client: Client) -> None:
        if client.link is not None:
            wanted[client.link.fileno()] = (select.POLLIN, lambda: self._hear(client))
        if client.stdin is not None and client.room > 0 and len(self._unsent) < WINDOW and self.alive:
            wanted[client.stdin] = (select.POLLIN, lambda: self._read_input(client))
        for output in client.outputs.values():
            if output.waiting:
                wanted[output.fd] = (select.POLLOUT, lambda output=output: self._write_output(client, output))  # type: ignore[misc]

    def _send(self, kind: Kind, number: int, payload: bytes = b"") -> None:
        self._unsent += frame(kind, number, payload)

    def _serve_port(self) -> None:
        with suppress(BlockingIOError):
            if self._unsent:
                del self._unsent[: self._port.send(self._unsent[: 4 * CHUNK])]
        try:
            data = self._port.recv(4 * CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.lost()
            return
        for kind, number, payload in self._parser.feed(data):
            self._handle(kind, number, payload)

    def _handle(self, kind: Kind, number: int, payload: bytes) -> None:
        client = self._clients.get(number)
        if kind is Kind.READY:
            self.facts = json.loads(payload)
        elif kind is Kind.CLOCK:
            self._clock_answer(number, OFFSET.unpack(payload)[0])
        elif kind is Kind.SET_CLOCK:
            self.clock_set = payload.decode(errors="replace")
        elif client is None:
            return
        elif kind is Kind.STARTED:
            client.tell(json.loads(payload))
        elif kind is Kind.REFUSED:
            client.tell(json.loads(payload))
            self._forget(client)
        elif kind is Kind.CREDIT:
            client.room += COUNT.unpack(payload)[0]
        elif kind in client.outputs:
            output = client.outputs[kind]
            output.waiting += payload
            if output.plain_file:
                self._write_output(client, output)
        elif kind is Kind.EXIT:
            client.exit_code = int(json.loads(payload)["exit_code"])
            client.exit_by = time.monotonic() + LAST_WORDS_S
            self._settle(client)

    def _clock_answer(self, number: int, guest_ns: int) -> None:
        """Guest minus host, and how wrong that may be: half of the round trip. The quickest exchange wins."""
        now_ns, asked_ns = time.monotonic_ns(), self._clock_asked_ns.pop(number)
        error_ns = (now_ns - asked_ns) // 2
        if self.clock is None or error_ns < self.clock[1]:
            self.clock = (guest_ns - (now_ns + asked_ns) // 2, error_ns)

    def _read_input(self, client: Client) -> None:
        if client.stdin is None:
            return
        try:
            data = os.read(client.stdin, min(CHUNK, client.room))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            client.room -= len(data)
            self._send(Kind.STDIN, client.number, data)
            return
        self._send(Kind.STDIN_END, client.number)
        os.close(client.stdin)
        client.stdin = None

    def _write_output(self, client: Client, output: Output) -> None:
        if not client.open:
            return
        written = output.write_some()
        if written and client.exit_code is None and self.alive:
            self._send(Kind.CREDIT, client.number, COUNT.pack(written))
        self._settle(client)

    def _hear(self, client: Client) -> None:
        """A client asks for a signal, or is gone: then so is its command."""
        if client.link is None:
            return
        try:
            received = wire.receive(client.link)
        except (OSError, ValueError):
            received = None
        if received is not None and isinstance(number := received[0].get("signal"), int) and 0 < number < 65:
            self._send(Kind.SIGNAL, client.number, bytes([number]))
            return
        if self.alive and client.exit_code is None:
            self._send(Kind.DROP, client.number)
        self._forget(client)

    def _settle(self, client: Client) -> None:
        """Reports a command's end once its output has gone, or was held back long enough; forgets it when all is."""
        if client.exit_code is None or client.number not in self._clients:
            return
        if client.link is not None and (not client.has_output() or time.monotonic() >= client.exit_by):
            client.tell({"exit_code": client.exit_code})
            client.link.close()
            client.link = None
        if client.link is None and not client.has_output():
            self._forget(client)

    def _forget(self, client: Client) -> None:
        self._clients.pop(client.number, None)
        client.close()
