"""One connection to a host, opened when first needed and shared by everything that runs there."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from harness.errors import SshError
from harness.hosts.ssh import proxy as ssh_proxy
from harness.hosts.ssh.keys import Offered, known_hosts
from harness.hosts.ssh.target import Target

if TYPE_CHECKING:
    from paramiko import Channel, Transport

    from harness.hosts.ssh.transport import Tunnel

KEEPALIVE_S = 5
MOST_CONNECTIONS = 4
"""Of one host: OpenSSH allows ten sessions on a connection (MaxSessions)."""

Opened = TypeVar("Opened")


class Link:
    """Connections to one target. All methods may be called from any thread."""

    def __init__(self, target: Target, jump: Link | None = None) -> None:
        self.target = target
        self.jump = jump
        self._opening = threading.Lock()
        self._transports: list[Transport] = []
        self._closed = False

    def open(self) -> None:
        """Connects, unless that is done. SshError when the host cannot be reached."""
        self._transport(0)

    def session(self) -> Channel:
        """A new channel for one command. SshError when the host cannot be reached."""
        return self._open(lambda transport, limit_s: transport.open_session(timeout=limit_s), MOST_CONNECTIONS)

    def tunnel(self, address: str, port: int) -> Tunnel:
        """A stream to another host, as seen from this one."""
        from harness.hosts.ssh.transport import Tunnel

        there, here = (address, port), ("127.0.0.1", 0)
        return Tunnel(
            self._open(
                lambda transport, limit_s: transport.open_channel("direct-tcpip", there, here, timeout=limit_s), 1
            )
        )

    def close(self) -> None:
        """Ends what runs over it. Safe to call twice, and while another thread connects."""
        self._closed = True
        for transport in self._transports:
            transport.close()

    def _open(self, ask: Callable[[Transport, float], Opened], most: int) -> Opened:
        from paramiko import ChannelException, SSHException

        target, why = self.target, ""
        for index in range(most):
            transport, started = self._transport(index), time.monotonic()
            try:
                return ask(transport, target.connect_timeout_s)
            except ChannelException as error:
                why = error.text
            except (SSHException, EOFError, OSError) as error:
                # Refusals to two threads at once: paramiko tells one of them no reason.
                if not transport.is_active() or time.monotonic() - started >= target.connect_timeout_s:
                    raise lost(target, str(error)) from error
                why = str(error)
        raise SshError("refused", f"{target.name}: {target.shown} opens no more channels: {why}", "see its sshd's log")

    def _transport(self, index: int) -> Transport:
        """The connection of that number: the one that is open, else a new one."""
        with self._opening:
            self._transports = [one for one in self._transports if one.is_active()]
            if index < len(self._transports):
                return self._transports[index]
            made = None if self._closed else _connect(self.target, self._socket())
            if made is None or self._closed:
                if made is not None:
                    made.close()
                raise SshError("lost", f"{self.target.name}: the connection was closed by us")
            self._transports.append(made)
            return made

    def _socket(self) -> socket.socket | Tunnel:
        if self.jump is None:
            return _dial(self.target) if self.target.proxy_command is None else ssh_proxy.dial(self.target)
        target = self.target
        try:
            return self.jump.tunnel(target.address, target.port)
        except SshError as error:
            start = f"{target.name}: through {self.jump.target.shown}: "
            if error.kind == "refused":
                message = f"{start}that host cannot connect to {target.address}:{target.port}"
                hint = f"on that host: nc -zv {target.address} {target.port}"
                raise SshError("unreachable", message, hint) from error
            raise SshError(error.kind, start + error.message.partition(": ")[2], error.hint) from error


def lost(target: Target, why: str = "") -> SshError:
    message = f"{target.name}: the connection to {target.shown} was lost" + (f": {why}" if why else "")
    return SshError("lost", message, "see whether the host is up; what ran there may still run")


def _dial(target: Target) -> socket.socket:
    hint = f"{target.by_hand}; is the host up, the address right, the port open?"
    try:
        link = socket.create_connection((target.address, target.port), timeout=target.connect_timeout_s)
    except TimeoutError as error:
        message = f"{target.name}: {target.shown} did not answer within {target.connect_timeout_s:g} s"
        raise SshError("unreachable", message, hint) from error
    except OSError as error:
        message = f"{target.name}: cannot reach {target.shown}: {error.strerror or error}"
        raise SshError("unreachable", message, hint) from error
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(target.silence_s * 1000))
    return link


def _connect(target: Target, link: socket.socket | Tunnel) -> Transport:
    """The handshake: the host proves who it is, then we do."""
    from paramiko import SSHException

    from harness.hosts.ssh.transport import SignalTransport

    _quiet()
    transport = SignalTransport(link)  # type: ignore[arg-type]  # a Tunnel has all of a socket that it uses
    try:
        limit_s = target.connect_timeout_s
        transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = limit_s
        known = known_hosts(target.known_hosts)
        options = transport.get_security_options()
        first = [kind for kind in known.types(target.known_as) if kind in options.key_types]
        options.key_types = tuple(dict.fromkeys([*first, *options.key_types]))
        _negotiate(target, transport, link)
        known.check(target, transport.get_remote_server_key())
        _authenticate(target, transport)
        transport.set_keepalive(max(1, min(KEEPALIVE_S, int(target.silence_s / 3))))
    except (SSHException, EOFError, OSError) as error:
        _hang_up(transport, link)
        raise lost(target, f"during the handshake: {error or 'it hung up'}") from error
    except BaseException:
        _hang_up(transport, link)
        raise
    return transport


def _hang_up(transport: Transport, link: socket.socket | Tunnel) -> None:
    """paramiko leaves the stream open where it has not begun."""
    transport.close()
    link.close()


def _negotiate(target: Target, transport: Transport, link: socket.socket | Tunnel) -> None:
    from paramiko import SSHException

    started, why = time.monotonic(), ""
    try:
        transport.start_client(timeout=target.connect_timeout_s)
    except (SSHException, EOFError, OSError) as error:
        why = str(error) or "it hung up"
    # paramiko returns as if all were well, or speaks of a banner, when the time is over.
    if time.monotonic() - started >= target.connect_timeout_s * 0.95:
        message = f"{target.name}: {target.shown} did not finish the handshake within {target.connect_timeout_s:g} s"
        raise SshError("unreachable", message, "see the host's console: it hangs, is overloaded, or is no SSH server")
    if why and isinstance(link, ssh_proxy.ProxySocket):
        raise ssh_proxy.silent(target, link, why)
    if why:
        message = f"{target.name}: {target.shown} answers, but not as an SSH server should: {why}"
        raise SshError("no_ssh", message, f"{target.by_hand}; a busy sshd hangs up too (MaxStartups)")


def _authenticate(target: Target, transport: Transport) -> None:
    from paramiko import AuthenticationException, BadAuthenticationType

    offered, why = Offered(target), ""
    for key in offered:
        try:
            more = transport.auth_publickey(target.user, key)
        except BadAuthenticationType as error:
            why = f"; it takes only {', '.join(error.allowed_types)}"
            break
        except AuthenticationException:
            if not transport.is_active():
                why = "; it hung up (too many keys?)"
                break
            continue
        if not more:
            return
        why = f"; it also wants {', '.join(more)}"
        break
    tried = ", ".join(offered.tried) or "no key"
    notes = "".join(f"; {note}" for note in offered.notes)
    message = f"{target.name}: {target.shown} does not let us in with {tried}{why}{notes}"
    raise SshError("auth", message, "add the public key to the host's ~/.ssh/authorized_keys, or name `user` and `key`")


def _quiet() -> None:
    """Its threads would print what we report ourselves."""
    logger = logging.getLogger("paramiko")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
