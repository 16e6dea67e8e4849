"""The pages over HTTP: GET and HEAD, for those who asked this machine by its own name."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from harness.errors import R2ccError, UsageError
from harness.schemas.form import Limits, form
from reports.serve.pages import Page, answer
from reports.serve.shelf import Shelf, shelf
from reports.store.store import no_store

MOST_QUERY = 4096


@form("serve", "r2cc serve")
@dataclass(frozen=True)
class Serve:
    """Where the pages are."""

    address: Annotated[str, Limits(pattern=r"^http://")]


def _handler(store: Shelf, names: set[str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """A web page elsewhere may have its own name resolve to this address: only ours are answered."""

        server_version = "r2cc"
        sys_version = ""
        timeout = 30

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def _answer(self, *, body: bool) -> None:
            if self.headers.get("Host", "") not in names:
                self._send(Page(403, b"This page is for this machine alone.\n", "text/plain"), body=body)
                return
            self._send(self._page(), body=body)

        def _page(self) -> Page:
            asked = urlsplit(self.path)
            if len(asked.query) > MOST_QUERY:
                return Page(414, b"That question is too long.\n", "text/plain")
            try:
                return answer(store, asked.path, parse_qs(asked.query, max_num_fields=64))
            except ValueError:
                return Page(400, b"That question cannot be read.\n", "text/plain")
            except (R2ccError, OSError, sqlite3.Error) as error:
                return Page(500, f"{error}\n".encode(errors="replace"), "text/plain")

        def _send(self, found: Page, *, body: bool) -> None:
            self.send_response(found.status)
            about = {
                "Content-Type": f"{found.kind}; charset=utf-8",
                "Content-Length": str(len(found.content)),
                "Content-Security-Policy": found.policy,
                "X-Content-Type-Options": "nosniff",
                "Referrer-Policy": "no-referrer",
                "Cache-Control": "no-store",
            }
            for name, value in about.items():
                self.send_header(name, value)
            self.end_headers()
            if body:
                self.wfile.write(found.content)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: what is looked at is nobody's business."""

    return Handler


class _Server(ThreadingHTTPServer):
    """Takes many who come at once: a connection that finds the queue full is tried again a second later, or more."""

    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever went away before the answer came is no error."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def serving(store: Path, address: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """The page's address while the block lasts. UsageError when there is no store or the port is taken."""
    if not store.is_dir():
        raise no_store(store)
    with shelf(store) as found:
        yield from _served(found, address, port)


def _served(store: Shelf, address: str, port: int) -> Iterator[str]:
    names: set[str] = set()
    try:
        server = _Server((address, port), _handler(store, names))
    except OSError as error:
        raise UsageError(f"cannot serve on {address}:{port}: {error.strerror}", "choose another --port") from error
    shown = f"[{address}]" if ":" in address else address
    names |= {f"{name}:{server.server_port}" for name in (shown, "localhost", "127.0.0.1")}
    thread = Thread(target=server.serve_forever, name="r2cc serve", daemon=True)
    thread.start()
    try:
        yield f"http://{shown}:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
