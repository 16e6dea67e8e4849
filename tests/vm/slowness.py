"""How slow guests are just now: bounds of time in these tests are those of a quiet machine, times this."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from harness.vmlab.lab import VmLab

QUIET_S = 0.1
"""What a command in a guest takes on a machine of two cores with nothing else to do."""
TRIES = 3
WITHIN_S = 10.0
LOOKS = 5


def slowness(lab: VmLab) -> float:
    """1 or more: how many times longer than on a quiet machine a command takes."""
    took_s = []
    for host in lab.hosts.values():
        for _ in range(TRIES):
            began = time.monotonic()
            host.run(["true"])
            took_s.append(time.monotonic() - began)
    return max(1.0, median(took_s) / QUIET_S)


def eventually(check: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
    """Several looks at least, however long each takes."""
    deadline, looks = time.monotonic() + within_s, 1
    while not check():
        assert time.monotonic() < deadline or looks < LOOKS, what
        time.sleep(0.1)
        looks += 1
