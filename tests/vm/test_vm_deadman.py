"""Guests heal by themselves when the controller that broke them is gone, or is not heard of any more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.vmlab.lab import VmLab
from tests.vm.slowness import eventually, slowness

pytestmark = [pytest.mark.vm, pytest.mark.slow]

REPO = Path(__file__).parents[2]
CONTROLLER = REPO / "tests" / "lab" / "deadman_controller.py"
TTL_S = 8.0
"""On a quiet machine: what is armed must not be undone before it is seen."""
MOST_TTL_S = 60.0
TOO_LATE = ("not armed any more", "no lease")
LATE_S = 10.0
ENDS = {"h0": signal.SIGKILL, "h1": signal.SIGSTOP}
"""One controller is killed; the other is there, and nothing comes from it."""


def facts(lab: VmLab, host: str) -> list[list[str]]:
    """Addresses and routes, seen from outside."""
    texts = [lab.hosts[host].run(argv).stdout for argv in (["ip", "-o", "-4", "addr"], ["ip", "route"])]
    return [sorted(text.splitlines()) for text in texts]


FLOCK = """#!/usr/bin/python3
import fcntl, sys
how = fcntl.LOCK_EX | (fcntl.LOCK_NB if "-n" in sys.argv else 0)
try:
    fcntl.flock(int(sys.argv[-1]), how)
except BlockingIOError:
    sys.exit(1)
"""


@pytest.fixture(autouse=True)
def flock(lab: VmLab, tmp_path: Path) -> None:
    """Guests have busybox for most commands, and Debian's has no flock; util-linux has it everywhere else."""
    (tmp_path / "flock").write_text(FLOCK)
    for host in ENDS:
        if lab.hosts[host].run(["sh", "-c", "command -v flock"], check=False).exit_code != 0:
            lab.hosts[host].put(tmp_path / "flock", "/usr/bin/flock")
            lab.hosts[host].run(["chmod", "755", "/usr/bin/flock"])


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.fixture
def before(lab: VmLab) -> dict[str, list[list[str]]]:
    """Of each host, before anything strikes there."""
    return {host: facts(lab, host) for host in ENDS}


@dataclass(frozen=True)
class Controller:
    """One that broke its host, which undoes that by itself `ttl_s` after it heard of it last."""

    process: subprocess.Popen[bytes]
    pid: str
    ttl_s: float


def broken(lab: VmLab, before: dict[str, list[list[str]]], host: str, stack: ExitStack) -> Controller:
    """Seen to be. Where that takes longer than the time to live, with twice the time."""
    ttl_s = TTL_S
    while True:
        words = [f"vm:{lab.name}", host, f"{ttl_s:g}", "address,stop"]
        process = subprocess.Popen(
            [sys.executable, str(CONTROLLER), *words],
            env={**os.environ, "PYTHONPATH": str(REPO)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        stack.enter_context(process)
        stack.callback(process.kill)
        assert process.stdout is not None
        said = ""
        for line in iter(process.stdout.readline, b""):  # first perhaps what the one before has left
            said = line.decode()
            if said.startswith("active ") or "Error: " in said:
                break
        active = said.startswith("active ")
        assert active or any(why in said for why in TOO_LATE), said
        pid = said.split()[1]
        if active and facts(lab, host) != before[host] and stopped(lab, host, pid):
            return Controller(process, pid, ttl_s)
        assert ttl_s < MOST_TTL_S, "it is not broken, or no longer"
        process.kill()
        eventually(lambda: facts(lab, host) == before[host], "it does not heal", ttl_s + LATE_S)
        ttl_s *= 2


def test_guests_heal_when_their_controller_is_killed_or_silent(
    lab: VmLab, before: dict[str, list[list[str]]], stack: ExitStack
) -> None:
    controllers = {}
    for host, signum in ENDS.items():
        controllers[host] = broken(lab, before, host, stack)
        controllers[host].process.send_signal(signum)
    until = time.monotonic() + sum(each.ttl_s for each in controllers.values()) + LATE_S * slowness(lab)
    waiting = {host: each.pid for host, each in controllers.items()}
    while waiting:
        late = time.monotonic() > until
        waiting = {h: pid for h, pid in waiting.items() if facts(lab, h) != before[h] or stopped(lab, h, pid)}
        assert not waiting or not late, "\n".join(told(lab, before, host) for host in waiting)
        time.sleep(0.2)


def told(lab: VmLab, before: dict[str, list[list[str]]], host: str) -> str:
    script = "cd /run/r2cc/*/armed && tail -n 5 */log */deadline /proc/uptime; ls */undone"
    return f"{before[host]}\n{facts(lab, host)}\n{lab.hosts[host].run(['sh', '-c', script], check=False)}"


def stopped(lab: VmLab, host: str, pid: str) -> bool:
    """The rank, which goes on, or has ended since with its controller."""
    stat = lab.hosts[host].run(["cat", f"/proc/{pid}/stat"], check=False).stdout
    return stat.rpartition(")")[2].split()[:1] == ["T"]
