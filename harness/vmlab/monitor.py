"""QEMU's machine protocol (docs/interop/qmp-spec), as much of it as the lab needs: one request, one answer."""

from __future__ import annotations

import json
import socket
from typing import Any

from harness.errors import LabError

ANSWER_LIMIT_S = 5.0


class Monitor:
    """One guest's monitor. Raises LabError when QEMU refuses a request or is gone."""

    def __init__(self, host: str, link: socket.socket) -> None:
        self._host = host
        self._link = link
        self._data = b""
        self._ready = False
        link.settimeout(ANSWER_LIMIT_S)

    def set_link(self, device: str, up: bool) -> None:
        """Plugs a NIC's cable in or out: the guest sees its carrier come or go, and no frame passes meanwhile."""
        self.ask("set_link", name=device, up=up)

    def ask(self, command: str, **arguments: Any) -> Any:
        if not self._ready:
            self._request("qmp_capabilities", {})
            self._ready = True
        return self._request(command, arguments)

    def _request(self, command: str, arguments: dict[str, Any]) -> Any:
        try:
            self._link.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
            while True:
                message = self._line()
                if "return" in message:
                    return message["return"]
                if "error" in message:
                    raise LabError(f"{self._host}: QEMU refuses {command}: {message['error'].get('desc')}")
        except OSError as error:
            raise LabError(f"{self._host}: its QEMU does not answer ({error})", "r2cc lab status") from error

    def _line(self) -> dict[str, Any]:
        while b"\n" not in self._data:
            more = self._link.recv(65536)
            if not more:
                raise ConnectionError("closed")
            self._data += more
        line, _, self._data = self._data.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message
