"""Status files as the library writes them, for tests."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any


def nic(name: str = "eth0", state: str = "up", **more: Any) -> dict[str, Any]:
    return {
        "name": name, "device": name, "state": state, "since_unix_s": 1000.5,
        "capacity_percent": {"down": 0, "degraded": 50}.get(state, 100), "tx_bytes": 10, "rx_bytes": 20,
        "connections_home": 2, "connections_carried": 2 if state == "down" else 0,
        "connections_here": 0 if state == "down" else 2, **more,
    }  # fmt: skip


def status(*nics: dict[str, Any], host: str = "h1", pid: int = 7, **more: Any) -> dict[str, Any]:
    totals = {
        "nic_failures": 0, "failovers": {}, "failbacks": 0, "connections_lost": 0, "stalled_s": 0.0, "held_s": 0.0,
        "stalls": {"bounds_ms": [1, 10, 100], "counts": [0, 0, 0, 0], "sum_s": 0.0},
        "dropped": {"stranger": 3, "forged": 0}, **more.pop("totals", {}),
    }  # fmt: skip
    connections = {"active": 4, "moving": 0, "held": 0, "failed": 0, **more.pop("connections", {})}
    return {
        "schema": 1, "build": "0123456789abcdef", "job": "42", "host": host, "rank": 0, "pid": pid,
        "started_unix_s": 1000.0, "updated_unix_s": 1001.0, "ended": False, "mode": 1, "net": "Socket",
        "nics": list(nics or (nic("eth0"), nic("eth1"))), "connections": connections,
        "paths": {"up": 4, "suspect": 0, "dead": 0, "probation": 0}, "totals": totals, "events": [], **more,
    }  # fmt: skip


def write(folder: Path, value: dict[str, Any] | str, name: str = "h1-7-00000000", age_s: float = 0) -> Path:
    path = folder / f"{name}.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    then = time.time() - age_s
    os.utime(path, (then, then))
    return path
