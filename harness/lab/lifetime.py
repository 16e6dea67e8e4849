"""What every lab's keeper needs to end in time: its owner, the signals that stop it, and a way to say no."""

from __future__ import annotations

import json
import os
import signal

from harness.errors import LabError, R2ccError


def refuse(error: R2ccError) -> int:
    print(json.dumps({"error": error.message, "hint": error.hint, "exit_code": error.exit_code}), flush=True)
    return error.exit_code


def open_owner(pid: int | None) -> int | None:
    """A pidfd of the owner: becomes readable when that process (not just one of its threads) is gone."""
    if pid is None:
        return None
    try:
        owner = os.pidfd_open(pid)
    except ProcessLookupError as error:
        raise LabError("the lab's owner was gone before the lab was up") from error
    if os.getppid() != pid:  # it died before pidfd_open, and the number may be another process by now
        raise LabError("the lab's owner was gone before the lab was up")
    return owner


def stop_signals() -> int:
    """A file that becomes readable on SIGTERM, SIGINT or SIGHUP: `lab down` and a closed terminal end us cleanly."""
    readable, writable = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: None)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    return readable
