"""The lab's keeper: the one process outside that holds a lab, and ends it when its owner, its time or it itself ends.

Started by `Lab.up` as `python -m harness.lab.keeper`: reads its task as JSON from stdin, answers with one JSON line.
It imports little, because a lab should be up in a few tenths of a second.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from harness.errors import LabError
from harness.lab import inside, state
from harness.lab.lifetime import keep, listener
from harness.lab.network import netns

POLL_MAX_MS = 2**31 - 1


def _keep(task: dict[str, Any], claim: state.Claim, enders: list[int]) -> None:
    clients = listener(claim)
    in_user_namespace = _isolate()
    init = _start_inside(task, claim, clients)
    try:
        ready = init.wait_ready()
        expires_at = None if task["ttl_s"] is None else time.time() + task["ttl_s"]
        claim.write({**_describe(task, init, expires_at), **ready, "user_namespace": in_user_namespace})
        print(json.dumps({"folder": str(claim.folder), **ready}), flush=True)
        inside.detach_from_terminal()
        _wait_for_the_end([*enders, init.pidfd], task["ttl_s"])
    finally:
        init.kill()


def _describe(task: dict[str, Any], init: inside.Init, expires_at: float | None) -> dict[str, Any]:
    return {
        "schema": 1,
        "name": task["name"],
        "keeper_pid": os.getpid(),
        "init_pid": init.pid,
        "owner_pid": task["owner_pid"],
        "started_at": time.time(),
        "expires_at": expires_at,
        "topology": task["topology"],
        "plan": task["plan"],
    }


def _isolate() -> bool:
    """Gives our children a pid namespace. True: inside a user namespace, as a plain user or a root without power."""
    try:
        try:
            netns.unshare(netns.CLONE_NEWPID)
            return False
        except PermissionError:
            netns.become_root_of_new_user_namespace()
            netns.unshare(netns.CLONE_NEWPID)
            return True
    except OSError as error:
        raise LabError(f"this machine does not allow namespaces: {error.strerror or error}", _remedy()) from error


_SWITCHES = {
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": ("0", "kernel.apparmor_restrict_unprivileged_userns=0"),
    "/proc/sys/kernel/unprivileged_userns_clone": ("1", "kernel.unprivileged_userns_clone=1"),
}


def _remedy(switches: dict[str, tuple[str, str]] | None = None) -> str:
    """What to type so that the next try works, judged by the switches this kernel has."""
    for file, (wanted, setting) in (switches or _SWITCHES).items():
        path = Path(file)
        if path.exists() and path.read_text().strip() != wanted:
            return f"sudo sysctl -w {setting} (or run as root)"
    limit = Path("/proc/sys/user/max_user_namespaces")
    if limit.exists() and limit.read_text().strip() == "0":
        return "sudo sysctl -w user.max_user_namespaces=15000 (or run as root)"
    return "run as root; in a container, allow namespaces (docker run --privileged)"


def _start_inside(task: dict[str, Any], claim: state.Claim, clients: socket.socket) -> inside.Init:
    """Forks pid 1 of the lab, which never returns here."""
    ready_read, ready_write = os.pipe2(os.O_CLOEXEC)
    life_read, life_write = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        for fd in (claim.lock_fd, ready_read, life_write):
            os.close(fd)
        signal.set_wakeup_fd(-1)
        inside.main(task["plan"], clients, ready_write, life_read)
    os.close(ready_write)
    os.close(life_read)
    clients.close()
    return inside.Init(pid, os.pidfd_open(pid), ready_read, life_write)


def _wait_for_the_end(fds: list[int], ttl_s: float | None) -> None:
    """Returns when any of `fds` is readable or the time to live is over."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    deadline = None if ttl_s is None else time.monotonic() + ttl_s
    while True:
        left_ms = None if deadline is None else max(0, round((deadline - time.monotonic()) * 1000))
        if poll.poll(None if left_ms is None else min(left_ms, POLL_MAX_MS)) or left_ms == 0:
            return


if __name__ == "__main__":
    sys.exit(keep(_keep))
