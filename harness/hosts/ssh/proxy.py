"""ProxyCommand: a program whose input and output are the connection to a host."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import threading
from contextlib import suppress

from harness.errors import SshError
from harness.hosts.ssh.target import Target

MOST_SAID = 2000


class ProxySocket(socket.socket):
    """Our end. The program ends when it is closed, as with OpenSSH: by SIGHUP."""

    def __init__(self, command: str) -> None:
        """OSError when there is no shell."""
        ours, its = socket.socketpair()
        super().__init__(fileno=ours.detach())
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as we do
        self._said, self._guard = "", threading.Lock()
        argv = [os.environ.get("SHELL") or "/bin/sh", "-c", f"exec {command}"]
        try:
            self._process = subprocess.Popen(
                argv, stdin=its.fileno(), stdout=its.fileno(), stderr=self._stderr, start_new_session=True
            )
        except OSError:
            super().close()
            self._stderr.close()
            raise
        finally:
            its.close()
        threading.Thread(target=self._process.wait, name="proxy", daemon=True).start()

    def said(self) -> str:
        """The last line that the program wrote to its standard error; empty: none."""
        with self._guard:
            if not self._stderr.closed:
                self._said = self._tail().decode(errors="replace")
        return next((line.strip() for line in reversed(self._said.split("\n")) if line.strip()), "")

    def _tail(self) -> bytes:
        """Without moving the place where the program writes on: it shares it with us."""
        end = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), MOST_SAID, max(0, end - MOST_SAID))

    def close(self) -> None:
        """paramiko closes it from its own thread, before anybody asks what was said."""
        self.said()
        super().close()
        self._stderr.close()
        with suppress(ProcessLookupError, PermissionError):
            if self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGHUP)


def dial(target: Target) -> ProxySocket:
    """SshError when the program cannot be started."""
    assert target.proxy_command is not None, "its caller looks"
    try:
        return ProxySocket(target.proxy_command)
    except OSError as error:
        raise SshError(
            "unreachable", f"{target.name}: ProxyCommand cannot be run: {error}", _by_hand(target)
        ) from error


def silent(target: Target, link: ProxySocket, why: str) -> SshError:
    """No SSH server spoke through it."""
    what = link.said() or why or "it ended"
    message = f"{target.name}: its ProxyCommand `{target.proxy_command}` leads to no SSH server: {what}"
    return SshError("unreachable", message, _by_hand(target))


def _by_hand(target: Target) -> str:
    return f"run the command by hand; it is in ~/.ssh/config: {target.by_hand}"
