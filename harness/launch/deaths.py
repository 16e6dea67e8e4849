"""Which rank was the first to end badly, from what a launcher says of it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.launch.tally import BROKEN, WRONG

FIRST_EXIT = re.compile(r"Process name: \[\[\d+,\d+\],(\d+)\]\s+Exit code: +(\d+)")
BY_SIGNAL = re.compile(r"process rank (\d+) with PID \d+ on node \S+ exited on signal (\d+)")
TASK = re.compile(r"error: (?P<host>\S+): tasks? (?P<rank>\d+)[^:]*: (?P<how>Exited with exit code (?P<code>\d+)|.+)")
TORCH = re.compile(r"rank\s*: (\d+) \(local_rank: \d+\)\s+exitcode\s*: (-?\d+)")
SIGNALS = {"Killed": 9, "Terminated": 15, "Segmentation fault": 11, "Aborted": 6, "Bus error": 7}


@dataclass(frozen=True)
class Death:
    """`code` of one that a signal ended is negative, as in subprocess; None where nobody says."""

    rank: int
    code: int | None


def first_death(launcher: str, said: str) -> Death | None:
    """None when it does not say; torchrun's word for it is what it calls the root cause."""
    return {"mpirun": _of_mpirun, "srun": _of_srun, "torchrun": _of_torchrun}.get(launcher, lambda _: None)(said)


def _of_mpirun(said: str) -> Death | None:
    if found := FIRST_EXIT.search(said):
        return Death(int(found[1]), int(found[2]))
    found = BY_SIGNAL.search(said)
    return Death(int(found[1]), -int(found[2])) if found else None


def _of_srun(said: str) -> Death | None:
    """It names all that ended badly, those that a peer's death ended among them."""
    deaths = [_task(found) for found in TASK.finditer(said)]
    return next((death for death in deaths if death.code not in (WRONG, BROKEN)), deaths[0] if deaths else None)


def _task(found: re.Match[str]) -> Death:
    number = next((number for name, number in SIGNALS.items() if found["how"].startswith(name)), None)
    code = int(found["code"]) if found["code"] else None if number is None else -number
    return Death(int(found["rank"]), code)


def _of_torchrun(said: str) -> Death | None:
    found = TORCH.search(said[said.rfind("Root Cause") :] if "Root Cause" in said else said)
    return Death(int(found[1]), int(found[2])) if found else None
