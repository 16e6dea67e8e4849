"""Guests heal by themselves when the controller that broke them is gone, or is not heard of any more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.vmlab.lab import VmLab

pytestmark = pytest.mark.vm

REPO = Path(__file__).parents[2]
CONTROLLER = REPO / "tests" / "lab" / "deadman_controller.py"
TTL_S = 12.0
"""Guests are emulated, and may be slow: what is armed must not be undone before it is seen."""
LATE_S = 10.0
ENDS = {"h0": signal.SIGKILL, "h1": signal.SIGSTOP}
"""One controller is killed; the other is there, and nothing comes from it."""


def facts(lab: VmLab, host: str) -> list[list[str]]:
    """Addresses and routes, seen from outside."""
    texts = [lab.hosts[host].run(argv).stdout for argv in (["ip", "-o", "-4", "addr"], ["ip", "route"])]
    return [sorted(text.splitlines()) for text in texts]


@pytest.fixture
def controllers(lab: VmLab) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    with ExitStack() as stack:
        made = {}
        for host in ENDS:
            words = [f"vm:{lab.name}", host, f"{TTL_S:g}", "address,stop"]
            made[host] = subprocess.Popen(
                [sys.executable, str(CONTROLLER), *words],
                env={**os.environ, "PYTHONPATH": str(REPO)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
            )
            stack.enter_context(made[host])
            stack.callback(made[host].kill)
        yield made


def test_guests_heal_when_their_controller_is_killed_or_silent(
    lab: VmLab, controllers: dict[str, subprocess.Popen[bytes]]
) -> None:
    before = {host: facts(lab, host) for host in ENDS}
    pids = {}
    for host, controller in controllers.items():
        assert controller.stdout is not None
        word, pid = controller.stdout.readline().decode().split()
        assert word == "active"
        pids[host] = pid
    struck = time.monotonic()
    for host, pid in pids.items():
        assert facts(lab, host) != before[host]
        assert stopped(lab, host, pid)
        controllers[host].send_signal(ENDS[host])
    waiting = dict(pids)
    while waiting:
        assert time.monotonic() - struck < TTL_S + LATE_S, {host: facts(lab, host) for host in waiting}
        waiting = {h: pid for h, pid in waiting.items() if facts(lab, h) != before[h] or stopped(lab, h, pid)}
        time.sleep(0.2)


def stopped(lab: VmLab, host: str, pid: str) -> bool:
    """The rank, which goes on, or has ended since with its controller."""
    stat = lab.hosts[host].run(["cat", f"/proc/{pid}/stat"], check=False).stdout
    return stat.rpartition(")")[2].split()[:1] == ["T"]
