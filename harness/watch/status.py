"""A process's status file, and a folder of them."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from harness.schemas.form import Count, Mode, form, growing

STALE_S = 10.0
"""A file that was not written for longer is of a process that has ended, or hangs. Its age alone says it: a process
number of a container is not ours."""
OLD_S = 600.0
"""A file that was not written for longer is not even read."""
MANY_OLD = 100
MOST_BYTES = 64 * 1024
OF_DRAINS = "drain-"
OF_A_PROCESS = re.compile(r"-\d+-[0-9a-f]{8}\.json$")
NicState = Literal["up", "degraded", "down", "draining"]


@growing
@dataclass(frozen=True)
class Nic:
    name: str
    """of the interface"""
    device: str
    """of the RDMA device; else as `name`"""
    state: NicState
    """draining: somebody said that it is to go away"""
    since_unix_s: float
    capacity_percent: Count
    tx_bytes: Count
    """payload that this process sent over it"""
    rx_bytes: Count
    connections_home: Count
    """whose data belongs on it"""
    connections_carried: Count
    """of those: whose data goes elsewhere now, in part or whole"""
    connections_here: Count
    """whose data goes over it now, of whatever home"""


@growing
@dataclass(frozen=True)
class Connections:
    active: Count
    moving: Count
    """being made, or changing over"""
    held: Count
    """without any path: waiting for one, up to R2CC_HOLD_MS"""
    failed: Count


@growing
@dataclass(frozen=True)
class Paths:
    """Pairs of NICs that this process sends over."""

    up: Count
    suspect: Count
    dead: Count
    probation: Count


@growing
@dataclass(frozen=True)
class Stalls:
    bounds_ms: tuple[float, ...]
    counts: tuple[int, ...]
    """one for each bound, and one for what was longer than all"""
    sum_s: float


@growing
@dataclass(frozen=True)
class Totals:
    """Since the process began."""

    nic_failures: Count
    """NICs found down, this host's and those of the hosts it talks with"""
    failovers: dict[str, int]
    """connections that moved off a failed NIC or lane, by cause"""
    failbacks: Count
    connections_lost: Count
    """without any path for longer than R2CC_HOLD_MS"""
    stalled_s: float
    """in which some connection that had work stood still"""
    held_s: float
    stalls: Stalls
    dropped: dict[str, int]
    """datagrams that were not acted on, by reason"""


@growing
@dataclass(frozen=True)
class Event:
    at_unix_s: float
    nic: str
    """a name for this host's, an address for another host's"""
    state: NicState


@form("status", "The status file of a process")
@growing
@dataclass(frozen=True)
class Status:
    build: str
    job: str
    """R2CC_JOB, else SLURM_JOB_ID, else empty"""
    host: str
    rank: int
    """-1: no launcher says it"""
    pid: int
    started_unix_s: float
    updated_unix_s: float
    ended: bool
    mode: Mode
    net: str
    nics: tuple[Nic, ...]
    connections: Connections
    paths: Paths
    totals: Totals
    events: tuple[Event, ...]
    """the last ones"""


@dataclass
class Folder:
    """What lies in a folder of status files."""

    path: Path
    live: list[Status] = field(default_factory=list)
    ended: list[Status] = field(default_factory=list)
    """of the last ten minutes"""
    problems: list[str] = field(default_factory=list)
    """a line each, for stderr"""
    files: dict[Path, Status] = field(default_factory=dict)
    """where each of them lies"""
    unknown: str = ""
    """why it says nothing of a host: nothing could be read"""


def read_folder(path: Path, host: str | None = None, now: float | None = None, *, whatever_age: bool = False) -> Folder:
    """Never raises for what lies there: a line in `problems` says what could not be read. `host`: of it alone."""
    found = Folder(path)
    now = time.time() if now is None else now
    old = 0
    try:
        files = sorted(file for file in path.iterdir() if _is_status(file.name))
    except FileNotFoundError:
        return _unknown(found, f"{path}: no such folder: no process has R2CC_STATUS_DIR={path}, or none ran yet")
    except OSError as error:
        return _unknown(found, f"{path}: {error.strerror}; run it as the user of the jobs, or as root")
    unreadable: list[str] = []
    for file in files:
        try:
            age = now - file.stat().st_mtime
            if age > OLD_S and not whatever_age:
                old += 1
                continue
            status = read(file)
        except FileNotFoundError:
            continue  # it ended just now
        except Exception as error:  # noqa: BLE001 - whatever lies there
            unreadable.append(f"{file.name}: {_why(error)}")
            continue
        if host is None or status.host == host or status.host.split(".")[0] == host:
            found.files[file] = status
            (found.ended if age > STALE_S or status.ended else found.live).append(status)
    if unreadable:
        more = f", and {len(unreadable) - 1} more" if len(unreadable) > 1 else ""
        found.problems.append(f"{path}: a status file could not be read: {unreadable[0]}{more}")
        found.unknown = "" if found.files else found.problems[-1]
    if old > MANY_OLD:
        hint = f"find {path} -name '*.json' -mmin +60 -delete"
        found.problems.append(f"{path}: {old} files of processes that ended long ago; to remove them: {hint}")
    return found


def _unknown(found: Folder, why: str) -> Folder:
    found.problems.append(why)
    found.unknown = why
    return found


def _is_status(name: str) -> bool:
    """What `r2cc drain` writes has no process number: one folder may serve as R2CC_CONTROL_DIR, too."""
    written = name.endswith(".json") and not name.startswith(".")
    return written and (not name.startswith(OF_DRAINS) or OF_A_PROCESS.search(name) is not None)


def read(path: Path) -> Status:
    """Unreadable, ValueError or OSError, with words of ours."""
    from harness.config.jsons import mapping_of

    value = mapping_of(path, schema=1, most_bytes=MOST_BYTES)
    return made(value)


def made(value: Mapping[str, Any]) -> Status:
    """Raises ValueError when it does not fit."""
    status: Status = _adapter().validate_python({key: item for key, item in value.items() if key != "schema"})
    return status


@cache
def _adapter() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Status)


def _why(error: Exception) -> str:
    errors = getattr(error, "errors", None)
    if callable(errors):
        first = errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(getattr(error, "message", error)).splitlines()[0]
