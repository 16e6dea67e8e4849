"""How far a host's CLOCK_MONOTONIC is from ours: asked several times, the quickest answer tells best (as NTP does)."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass

from harness.errors import InfraError
from harness.hosts.base import Host, spawn_held

ASKED = 16
LIMIT_S = 5.0


@dataclass(frozen=True)
class Offset:
    """`offset_ns` is to be taken off the host's times to get ours, which are then wrong by at most `error_ns`."""

    offset_ns: int
    error_ns: int


def offset(host: Host, sampler: str, now_ns: Callable[[], int] = time.monotonic_ns) -> Offset:
    """Asks `r2cc_sampler --clock` on the host. InfraError when it does not answer."""
    process, ours = spawn_held(host, [sampler, "--clock"])
    try:
        assert process.stdout is not None
        out = process.stdout.fileno()
        asked = [_exchange(ours, out, now_ns) for _ in range(ASKED)]
    except (OSError, ValueError) as error:
        raise InfraError(
            f"{host.name}: {sampler} does not tell the time: {process.stderr_tail() or error}",
            "r2cc deploy puts it there",
        ) from error
    finally:
        os.close(ours)
        process.close()
    return min(asked, key=lambda each: each.error_ns)


def _exchange(ask: int, out: int, now_ns: Callable[[], int]) -> Offset:
    """Their clock was read between our two readings: in the middle of them, give or take half."""
    before_ns = now_ns()
    os.write(ask, b"?")
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([out], [], [], LIMIT_S)[0]:
            raise ValueError(f"no answer within {LIMIT_S:g} s")
        part = os.read(out, 4096)
        if not part:
            raise ValueError("it ended")
        line += part
    after_ns = now_ns()
    there_ns = int(json.loads(line)["t_ns"])
    return Offset(there_ns - (before_ns + after_ns) // 2, (after_ns - before_ns + 1) // 2)
