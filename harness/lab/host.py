"""A host of the lab: commands run in its namespaces through the lab's agent, in about 2 ms each."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.hosts.commands import copy_file, merged_env
from harness.lab.client import AgentHost, AgentProcess


class NamespaceProcess(AgentProcess):
    """A command in a namespace: a process of this machine, held by a pidfd."""

    def __init__(self, host: str, link: socket.socket, pidfd: int) -> None:
        self._pidfd = pidfd
        super().__init__(host, link, _pid_of(pidfd))

    def send_signal(self, signum: int) -> None:
        """To the process itself, never to a reused number. Nothing happens when it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signum)

    def _release(self) -> None:
        super()._release()
        os.close(self._pidfd)


@dataclass(frozen=True)
class NamespaceHost(AgentHost):
    """One host (or the switch) of a lab. Files are this machine's: only network, /sys, /proc and host name differ."""

    def put(self, local: Path, remote: str) -> None:
        copy_file(self.name, str(local), remote)

    def get(self, remote: str, local: Path) -> None:
        copy_file(self.name, remote, str(local))

    def read_text(self, path: str) -> str:
        """Read from inside, so that /proc/net and /sys/class/net are this host's."""
        return self.run(["cat", "--", path], timeout_s=10.0).stdout

    def _surroundings(self, env: Mapping[str, str] | None) -> dict[str, Any]:
        return {"env": merged_env(env), "cwd": str(Path.cwd())}

    def _held(self, link: socket.socket, answer: Mapping[str, Any], fds: list[int]) -> AgentProcess:
        return NamespaceProcess(self.name, link, fds[0])


def _pid_of(pidfd: int) -> int:
    """The process's number as we see it: in our pid namespace, not in the lab's."""
    found = re.search(r"^Pid:\s+(-?\d+)$", Path(f"/proc/self/fdinfo/{pidfd}").read_text(), re.MULTILINE)
    return int(found.group(1)) if found else -1
