"""paramiko's Transport, taught that a command can end by a signal, and that nothing may follow a channel's end."""

from __future__ import annotations

import signal
import threading
from typing import Any, ClassVar

import paramiko
from paramiko.common import MSG_CHANNEL_CLOSE, MSG_CHANNEL_REQUEST

BY_SIGNAL = 1 << 16
"""Added to the number of the signal in a channel's exit status."""
WINDOW_POLL_S = 0.5


def _request(channel: paramiko.Channel, message: paramiko.Message) -> None:
    if message.get_text() == "exit-signal":
        message.get_boolean()
        number = getattr(signal, f"SIG{message.get_text()}", signal.SIGKILL)
        channel.exit_status = BY_SIGNAL + int(number)
        channel.status_event.set()
        return
    message.rewind()
    message.get_int()  # the channel's number
    channel._handle_request(message)  # type: ignore[attr-defined]


def _guard(channel: paramiko.Channel) -> threading.Lock:
    """Held while something is sent into a channel or it is closed.

    paramiko answers the host's CLOSE at once, from its own thread. What another thread is just about to send then comes
    after our CLOSE, and OpenSSH hangs up the whole connection because of it, with everything else that runs over it.
    """
    guard: threading.Lock = channel.__dict__.setdefault("_r2cc_guard", threading.Lock())
    return guard


def _closed(channel: paramiko.Channel, message: paramiko.Message) -> None:
    """The thread that reads the connection must not wait for one that sends: that may wait for it."""
    guard = _guard(channel)
    if not guard.acquire(blocking=False):
        threading.Thread(target=_close_later, args=(channel, message), name="close", daemon=True).start()
        return
    try:
        channel._handle_close(message)  # type: ignore[attr-defined]
    finally:
        guard.release()


def _close_later(channel: paramiko.Channel, message: paramiko.Message) -> None:
    with _guard(channel):
        channel._handle_close(message)  # type: ignore[attr-defined]


class SignalTransport(paramiko.Transport):
    _channel_handler_table: ClassVar[Any] = {
        **paramiko.Transport._channel_handler_table,  # type: ignore[attr-defined]
        MSG_CHANNEL_REQUEST: _request,
        MSG_CHANNEL_CLOSE: _closed,
    }


def exit_code_of(channel: paramiko.Channel) -> int | None:
    """As subprocess has it: -N for signal N. None when the host never said."""
    status = channel.exit_status
    if not channel.status_event.is_set() or status < 0:
        return None
    return BY_SIGNAL - status if status > BY_SIGNAL else int(status)


def send(channel: paramiko.Channel, data: bytes) -> int:
    """How much of it was sent; waits until the host takes any. OSError when it takes no more. One thread a channel."""
    while True:
        with _guard(channel):
            if channel.closed or channel.eof_sent:
                raise OSError("the channel is closed")
            if channel.send_ready():
                return channel.send(data)
        with channel.lock:
            if channel.out_window_size == 0 and not channel.closed:
                channel.out_buffer_cv.wait(WINDOW_POLL_S)


def send_all(channel: paramiko.Channel, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[send(channel, bytes(rest[:32768])) :]


def end_input(channel: paramiko.Channel) -> None:
    with _guard(channel):
        if not channel.closed:
            channel.shutdown_write()


def close(channel: paramiko.Channel) -> None:
    """Safe to call twice, and while another thread sends."""
    with _guard(channel):
        channel.close()


class Tunnel:
    """A channel as the stream that another connection runs in."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel

    def send(self, data: bytes) -> int:
        return send(self._channel, data)

    def recv(self, most: int) -> bytes:
        return self._channel.recv(most)

    def settimeout(self, timeout_s: float | None) -> None:
        self._channel.settimeout(timeout_s)

    def close(self) -> None:
        close(self._channel)

    @property
    def _closed(self) -> bool:
        """As sockets have it; paramiko looks at it."""
        return self._channel.closed
