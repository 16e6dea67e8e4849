"""How the ranks that only compute hear that all requests were answered: a connection to rank 0, on the management
network."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

PORT = 2000
"""Above the port where the ranks of the server meet."""
DONE = b"done\n"
RETRY_S = 0.2
LATE_S = 10.0


class Holder:
    """Rank 0's end, for so many others. Raises OSError where the port is taken."""

    def __init__(self, root: str, others: int) -> None:
        self._listener = socket.create_server(place(root), backlog=128)
        self._others = others
        self._peers: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self._peers.append(self._listener.accept()[0])
            except OSError:
                return

    def done(self) -> None:
        """Says so to all, also to those that only begin; not to one that does not come at all."""
        until_s = time.monotonic() + LATE_S
        while len(self._peers) < self._others and time.monotonic() < until_s:
            time.sleep(RETRY_S / 4)
        for peer in self._peers:
            with suppress(OSError):  # it has ended
                peer.sendall(DONE)
            peer.close()


def wait(root: str, limit_s: float, ended: Callable[[], bool]) -> bool:
    """Whether rank 0 said so; False when it ended before, was not there in time, or `ended`."""
    until_s = time.monotonic() + limit_s
    while not ended():
        try:
            with socket.create_connection(place(root), timeout=RETRY_S) as link:
                return _said(link, ended)
        except OSError:
            if time.monotonic() > until_s:
                return False
            time.sleep(RETRY_S)
    return False


def _said(link: socket.socket, ended: Callable[[], bool]) -> bool:
    link.settimeout(RETRY_S)
    while not ended():
        try:
            return link.recv(len(DONE)) == DONE
        except socket.timeout:  # noqa: UP041 - not the same class before Python 3.10
            continue
        except OSError:
            return False
    return False


def place(root: str) -> tuple[str, int]:
    host, _, port = root.rpartition(":")
    return host, int(port) + PORT
