"""Messages between the controller and the process inside the lab: a length, JSON, and open files next to it."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any

_LENGTH = struct.Struct("!I")
MAX_BYTES = 4 << 20
MAX_FDS = 4


def send(to: socket.socket, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
    """Sends one message; the receiver gets its own copies of `fds`. Raises OSError when the other side is gone."""
    data = json.dumps(message).encode()
    frame = _LENGTH.pack(len(data)) + data
    sent = socket.send_fds(to, [frame], list(fds)) if fds else to.send(frame)
    if sent < len(frame):  # a peer that has all may have closed already: not even zero bytes may be sent to it then
        to.sendall(frame[sent:])


def receive(source: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """One message and the files that came with it (close-on-exec), or None when the other side has closed."""
    head, fds, _flags, _address = socket.recv_fds(source, _LENGTH.size, MAX_FDS, socket.MSG_CMSG_CLOEXEC)
    if not head:
        return None
    (length,) = _LENGTH.unpack(head + _exactly(source, _LENGTH.size - len(head)))
    if length > MAX_BYTES:
        raise ConnectionError(f"a message of {length} bytes")
    return json.loads(_exactly(source, length)), fds


def _exactly(source: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = source.recv(count - len(parts))
        if not part:
            raise ConnectionError("closed in the middle of a message")
        parts += part
    return bytes(parts)
