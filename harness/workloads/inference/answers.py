"""HTTP/1.1 as far as servers of inference speak it: one request a connection, the answer line by line as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

HOST = "127.0.0.1"
LONGEST_LINE = 1 << 20
MOST_HEADERS = 100
MOST_QUOTED = 300
CLOSED = "the connection was closed in the middle of the answer"


class Failed(Exception):
    """A request that failed: why, in one line."""


@asynccontextmanager
async def answered(port: int, path: str, body: bytes | None = None) -> AsyncIterator[Answer]:
    """An answer whose headers were read; `body`: it is posted as JSON. Raises Failed, OSError."""
    reader, writer = await asyncio.open_connection(HOST, port, limit=LONGEST_LINE)
    try:
        method = "GET" if body is None else "POST"
        head = [f"{method} {path} HTTP/1.1", f"Host: {HOST}:{port}", "Accept: */*", "Connection: close"]
        if body is not None:
            head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        writer.write("\r\n".join([*head, "", ""]).encode() + (body or b""))
        await writer.drain()
        answer = Answer(reader)
        await answer.begin()
        yield answer
    except asyncio.IncompleteReadError as error:
        raise Failed(CLOSED) from error
    except ValueError as error:
        raise Failed(f"no HTTP that is understood: {error}") from error
    finally:
        writer.close()


class Answer:
    """`status` once it has begun; then its lines."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self.status = 0
        self._chunked = False
        self._length: int | None = None

    async def begin(self) -> None:
        words = (await self._line()).split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise Failed("the server closed the connection without an answer" if not words else "it answers no HTTP")
        self.status = int(words[1])
        for _ in range(MOST_HEADERS):
            line = await self._line()
            if not line:
                return
            name, _, value = line.decode("latin-1").partition(":")
            if name.lower() == "transfer-encoding":
                self._chunked = "chunked" in value.lower()
            elif name.lower() == "content-length":
                self._length = int(value)
        raise Failed(f"more than {MOST_HEADERS} headers")

    async def lines(self) -> AsyncIterator[bytes]:
        """Without their ends. Raises Failed where the connection ends before the answer does."""
        rest = b""
        async for piece in self._pieces():
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line.rstrip(b"\r")
            if len(rest) > LONGEST_LINE:
                raise Failed("a line of more than 1 MiB")
        if rest:
            yield rest.rstrip(b"\r")

    async def text(self) -> str:
        """All of it, bounded."""
        found = b""
        async for line in self.lines():
            found += line + b"\n"
            if len(found) > LONGEST_LINE:
                break
        return found.decode(errors="replace")

    async def _pieces(self) -> AsyncIterator[bytes]:
        if self._chunked:
            while size := await self._size():
                yield await self._reader.readexactly(size)
                await self._reader.readexactly(2)
            return
        left = self._length
        while left is None or left > 0:
            piece = await self._reader.read(65536 if left is None else min(left, 65536))
            if not piece:
                if left is not None:
                    raise Failed(CLOSED)
                return
            left = None if left is None else left - len(piece)
            yield piece

    async def _size(self) -> int:
        """Of the next chunk; 0: there are no more."""
        line = await self._line()
        if not line:
            raise Failed(CLOSED)
        return int(line.partition(b";")[0], 16)

    async def _line(self) -> bytes:
        """Empty at the end."""
        line = await self._reader.readline()
        if line and not line.endswith(b"\n"):
            raise Failed(CLOSED)
        return line.rstrip(b"\r\n")
