"""The process with pid 1 inside the lab: starts commands in the hosts' namespaces and reports how they end.

One connection a command. The client sends what to run and its stdin, stdout and stderr; the agent answers with a pidfd,
later with the exit code. A client that goes away takes its command with it. When the agent dies, the kernel kills all
that runs in the lab: that is how a lab cannot outlive its owner. It serves one request at a time (about 1 ms each).
"""

from __future__ import annotations

import errno
import os
import selectors
import shutil
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from harness.lab import wire
from harness.lab.network.netns import HostNamespaces

REQUEST_TIMEOUT_S = 5.0


class Agent:
    """Serves until `life_fd` reaches its end: the keeper outside holds the other end."""

    def __init__(self, listener: socket.socket, namespaces: Mapping[str, HostNamespaces], life_fd: int) -> None:
        self._listener = listener
        self._namespaces = namespaces
        self._clients: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._wakeup = self._child_signals()
        self._life_fd = life_fd

    def serve(self) -> None:
        """The event loop. Returns when the keeper is gone; the caller must then exit."""
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wakeup, selectors.EVENT_READ, self._reap)
        self._selector.register(self._life_fd, selectors.EVENT_READ, None)
        while True:
            for key, _events in self._selector.select():
                if key.data is None:
                    return
                key.data(key.fileobj)

    def _child_signals(self) -> socket.socket:
        """A socket that becomes readable when a child ends. As pid 1 we inherit orphans too, and reap them."""
        readable, writable = socket.socketpair()
        readable.setblocking(False)
        writable.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(writable.detach(), warn_on_full_buffer=False)
        return readable

    def _accept(self, listener: socket.socket) -> None:
        client, _address = listener.accept()
        client.settimeout(REQUEST_TIMEOUT_S)
        try:
            received = wire.receive(client)
        except (OSError, ValueError):
            received = None
        if received is None:
            client.close()
            return
        request, fds = received
        try:
            self._start(client, request, fds)
        finally:
            for fd in fds:
                os.close(fd)

    def _start(self, client: socket.socket, request: Mapping[str, Any], fds: list[int]) -> None:
        try:
            pid = self._spawn(request, fds)
        except (OSError, ValueError, KeyError) as error:  # a bad request must never end the lab
            number, text = (error.errno, error.strerror) if isinstance(error, OSError) else (errno.EINVAL, repr(error))
            with suppress(OSError):
                wire.send(client, {"errno": number, "error": text})
            client.close()
            return
        self._clients[pid] = client
        self._selector.register(client, selectors.EVENT_READ, lambda gone, pid=pid: self._client_gone(pid, gone))
        pidfd = os.pidfd_open(pid)
        try:
            wire.send(client, {"pid": pid}, [pidfd])
        except OSError:
            self._client_gone(pid, client)
        finally:
            os.close(pidfd)

    def _spawn(self, request: Mapping[str, Any], fds: list[int]) -> int:
        """Enters the host and starts the command there in a process group of its own."""
        self._namespaces[request["host"]].enter()
        os.chdir(request["cwd"])
        argv, env = request["argv"], request["env"]
        return os.posix_spawn(
            shutil.which(argv[0], path=env["PATH"]) or argv[0],
            argv,
            env,
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(fds)],
            setpgroup=0,
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM],
        )

    def _client_gone(self, pid: int, client: socket.socket) -> None:
        """Nobody waits for that command any more: end it and whatever it started in its process group."""
        if self._clients.pop(pid, None) is None:
            return
        self._drop(client)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)

    def _drop(self, client: socket.socket) -> None:
        self._selector.unregister(client)
        client.close()

    def _reap(self, wakeup: socket.socket) -> None:
        with suppress(BlockingIOError):
            wakeup.recv(4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            client = self._clients.pop(pid, None)
            if client is not None:
                with suppress(OSError):
                    wire.send(client, {"exit_code": os.waitstatus_to_exitcode(status)})
                self._drop(client)
