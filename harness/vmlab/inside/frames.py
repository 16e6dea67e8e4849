"""Frames between a guest's agent and the lab's keeper, over one virtio-serial port: many commands, one wire.

A frame is its kind, the command's number, a length, and so many bytes. Each direction of a command may have WINDOW
bytes under way that the other side has not yet passed on (CREDIT): one slow reader never holds up the other commands.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum

HEADER = struct.Struct("<BII")
WINDOW = 256 << 10
CHUNK = 32 << 10
MAX_BYTES = 4 << 20


class Kind(IntEnum):
    """To the guest: START to SET_CLOCK; back: READY to EXIT; CREDIT, CLOCK and SET_CLOCK both ways."""

    START = 1
    STDIN = 2
    STDIN_END = 3
    SIGNAL = 4
    DROP = 5
    CREDIT = 6
    CLOCK = 7
    SET_CLOCK = 8
    READY = 9
    STARTED = 10
    REFUSED = 11
    STDOUT = 12
    STDERR = 13
    EXIT = 14


def frame(kind: Kind, number: int, payload: bytes = b"") -> bytes:
    return HEADER.pack(kind, number, len(payload)) + payload


class Parser:
    """Cuts a byte stream into frames. Raises ValueError on anything that no peer of ours sends."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Kind, int, bytes]]:
        self._data += data
        at = 0
        try:
            while len(self._data) - at >= HEADER.size:
                kind, number, length = HEADER.unpack_from(self._data, at)
                if length > MAX_BYTES:
                    raise ValueError(f"a frame of {length} bytes")
                end = at + HEADER.size + length
                if len(self._data) < end:
                    break
                payload = bytes(self._data[at + HEADER.size : end])
                at = end
                yield Kind(kind), number, payload
        finally:
            del self._data[:at]
