"""The server's process on one host: it is started, and ended with all that it started."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from harness.workloads.inference.output import Output

PR_SET_PDEATHSIG = 1
STOP_S = 8.0
"""How long it may take to end by itself; less than what the controller gives a rank."""


class Server:
    """Raises OSError where there is no such program."""

    def __init__(self, argv: Sequence[str], output: Output) -> None:
        self.process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=_with_parent,  # noqa: PLW1509 - there are no threads yet
        )  # fmt: skip
        assert self.process.stdout is not None
        self._copying = threading.Thread(target=output.copy, args=(self.process.stdout.fileno(),), daemon=True)
        self._copying.start()

    @property
    def code(self) -> int | None:
        """None while it runs."""
        return self.process.poll()

    def wait(self, limit_s: float) -> int | None:
        """Its exit code; None when it still runs after so long."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(limit_s)
        return self.code

    def stop(self, own_end_s: float = 0.0) -> None:
        """Waits so long for its own end, asks it to end, and then makes it. What it started goes, too."""
        if self.wait(own_end_s) is None:
            self.process.send_signal(signal.SIGTERM)
            self.wait(STOP_S)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._copying.join(timeout=1.0)


def _with_parent() -> None:
    """It does not outlive whoever watches over it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
