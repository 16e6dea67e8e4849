"""How a command is started on a host over SSH, and how its output comes back."""

from __future__ import annotations

import select
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from harness.errors import CommandError, InfraError
from harness.hosts.commands import start_error
from harness.hosts.remote import CHUNK, MOST_NOISE, PID_LINE, START, Sink, preamble
from harness.hosts.ssh.link import Link, lost

POLL_S = 0.05


def remote_line(argv: Sequence[str]) -> str:
    """What the login shell is given: quoted words and nothing else."""
    return "exec " + shlex.join(["sh", "-c", START, "r2cc", *argv])


class Channelled:
    """A started command's channel: `pid` on the host, and what came of its output so far."""

    def __init__(self, link: Link, argv: Sequence[str], env: Mapping[str, str] | None) -> None:
        target = link.target
        if not argv or any("\0" in word for word in argv):
            raise CommandError(f"{target.name}: an empty command, or one with NUL, was given", "give a program")
        words = preamble(target.name, env)
        self._link = link
        self.channel = link.session()
        try:
            self.channel.settimeout(target.connect_timeout_s)
            self.pid, self._rest = self._start(argv, words)
            self.channel.settimeout(None)
        except BaseException:
            self.close()
            raise

    def _start(self, argv: Sequence[str], words: bytes) -> tuple[int, bytes]:
        from paramiko import SSHException

        from harness.hosts.ssh.transport import send_all

        target, received = self._link.target, b""
        try:
            self.channel.exec_command(remote_line(argv))
            with suppress(OSError):  # it has ended already: what it said is still to be read
                send_all(self.channel, words)
            while (found := PID_LINE.search(received)) is None:
                chunk = self.channel.recv(CHUNK)
                if not chunk or len(received) > MOST_NOISE:
                    raise self._no_start(received)
                received += chunk
        except TimeoutError as error:
            raise lost(target, f"no command started within {target.connect_timeout_s:g} s") from error
        except (SSHException, EOFError, OSError) as error:
            raise lost(target, str(error)) from error
        if found[1] == b"none":
            raise start_error(target.name, argv, FileNotFoundError(2, "No such file or directory"))
        return int(found[1]), received[found.end() :]

    def _no_start(self, received: bytes) -> InfraError:
        """It ended, or talks and talks, before our script said anything."""
        target = self._link.target
        if self.channel.exit_status < 0 and not received:
            return lost(target)
        with suppress(TimeoutError):
            received += self.channel.recv_stderr(CHUNK)
        said = received.decode(errors="replace").strip().splitlines()[-3:]
        message = f"{target.name}: {target.shown} runs no commands: {' / '.join(said) or 'it said nothing'}"
        return CommandError(message, f"ssh -p {target.port} {target.address} true")

    def write(self, chunks: Iterable[bytes]) -> None:
        """To its stdin, then the end of file. That it reads no more, or has ended, is told by its exit code."""
        from paramiko import SSHException

        from harness.hosts.ssh.transport import end_input, send_all

        with suppress(OSError, EOFError, SSHException):
            for chunk in chunks:
                send_all(self.channel, chunk)
            end_input(self.channel)

    def pump(self, out: Sink, err: Sink, timeout_s: float | None = None) -> bool:
        """Passes output on until the command ends. False: it still runs after `timeout_s`."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(self.channel.fileno(), select.POLLIN)
        if self._rest:
            out(self._rest)
            self._rest = b""
        while True:
            ended = self.channel.closed or (self.channel.eof_received and self.channel.exit_status_ready())
            if self._drain(out, err):
                continue
            if ended:
                return True
            left_s = 3600.0 if deadline is None else deadline - time.monotonic()
            if left_s <= 0:
                return False
            if self.channel.eof_received:  # its pipe is readable from now on
                self.channel.status_event.wait(min(POLL_S, left_s))
            else:
                poll.poll(left_s * 1000)

    def _drain(self, out: Sink, err: Sink) -> bool:
        moved = False
        while self.channel.recv_ready():
            out(self.channel.recv(CHUNK))
            moved = True
        while self.channel.recv_stderr_ready():
            err(self.channel.recv_stderr(CHUNK))
            moved = True
        return moved

    def close(self) -> None:
        from harness.hosts.ssh.transport import close

        close(self.channel)

    def exit_code(self) -> int | None:
        """None: the connection was lost before the host said it."""
        from harness.hosts.ssh.transport import exit_code_of

        return exit_code_of(self.channel)
