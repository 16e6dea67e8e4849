"""What every lab's keeper does alike: it begins, listens, ends in time, and has a way to say no."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from harness.errors import LabError, R2ccError
from harness.files.writing import failed
from harness.lab import state
from harness.lab.network import netns


def keep(work: Callable[[dict[str, Any], state.Claim, list[int]], None]) -> int:
    """A keeper's life: its task comes by stdin, its folder is claimed, and why it cannot be is its answer. `work` is
    given both, and files that become readable when the lab must end."""
    stop_fd = stop_signals()
    task = json.load(sys.stdin)
    try:
        owner_fd = open_owner(task["owner_pid"])
        claim = state.claim(task["name"])
    except R2ccError as error:
        return refuse(error)
    try:
        work(task, claim, [fd for fd in (owner_fd, stop_fd) if fd is not None])
    except R2ccError as error:
        return refuse(error)
    except OSError as error:
        return refuse(failed(claim.folder, error))
    finally:
        claim.release()
    return 0


def listener(claim: state.Claim) -> socket.socket:
    """Where the lab's clients come in."""
    made = socket.socket(socket.AF_UNIX)
    with netns.working_in(claim.folder):
        made.bind(state.SOCKET)
    made.listen(64)
    return made


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
