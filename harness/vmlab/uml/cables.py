"""What QEMU's monitor does, for a guest of User Mode Linux: cables by a line to the guest and a word to the wire."""

from __future__ import annotations

import signal
import socket
import subprocess
from contextlib import suppress
from typing import Any

from harness.errors import LabError
from harness.vmlab.monitor import ANSWER_LIMIT_S
from harness.vmlab.shape import DEVICE_PREFIX
from harness.vmlab.wire import WireControl

SIGNALS = {"stop": signal.SIGSTOP, "cont": signal.SIGCONT}


class Cables:
    """One guest's NICs and processor. Raises LabError when the guest does not answer."""

    def __init__(self, host: str, link: socket.socket, process: subprocess.Popen[bytes], wire: WireControl) -> None:
        self._host, self._link, self._process, self._wire = host, link, process, wire

    def set_link(self, device: str, up: bool) -> None:
        """No frame passes a NIC whose cable is out, and its guest sees the carrier go."""
        nic = device.removeprefix(DEVICE_PREFIX)
        self._cut(nic, not up)
        try:
            self._move_carrier(nic, up)
        except LabError:
            self._cut(nic, up)  # half a cable that is out would be out for good
            raise

    def _cut(self, nic: str, out: bool) -> None:
        self._wire.ask(f"set {self._host}-{nic} both cut {'on' if out else 'off'}")

    def _move_carrier(self, nic: str, up: bool) -> None:
        try:
            self._link.settimeout(0)
            with suppress(BlockingIOError):  # an answer that came too late to somebody before us
                self._link.recv(256)
            self._link.settimeout(ANSWER_LIMIT_S)
            self._link.sendall(f"{nic} {int(up)}\n".encode())
            answer = self._line()
        except OSError as error:
            hint = f"is it paused? r2cc lab exec switch -- guest {self._host} resume"
            raise LabError(f"{self._host}: the guest does not answer ({error})", hint) from error
        if answer != "ok":
            raise LabError(f"{self._host}: {nic}'s carrier does not change", "its console is in .cache/vm/logs")

    def ask(self, command: str, **_arguments: Any) -> None:
        """`stop` and `cont`: a whole guest stands still, but for what its processes compute until their next call."""
        self._process.send_signal(SIGNALS[command])

    def _line(self) -> str:
        data = b""
        while not data.endswith(b"\n"):
            more = self._link.recv(256)
            if not more:
                raise ConnectionError("closed")
            data += more
        return data.decode(errors="replace").strip()
