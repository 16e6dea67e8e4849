"""NICs that are to go away: files that the processes of a host watch (R2CC_CONTROL_DIR). They count if they belong to
the job's user or to root and nobody else may write to them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.errors import R2ccError, UsageError
from harness.files.writing import failed, write_whole
from harness.schemas.form import form
from harness.watch.status import OF_DRAINS, Nic, Status, read_folder

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
POLL_S = 0.2


class Refused(R2ccError):
    """It works, but the answer is no."""

    exit_code = 1


@dataclass(frozen=True)
class Place:
    host: str
    nic: str

    def __str__(self) -> str:
        return f"{self.host}:{self.nic}"


@form("drain", "A file of `r2cc drain`")
@dataclass(frozen=True)
class Drain:
    host: str
    nic: str
    until_unix_s: int | None
    """null: until `r2cc undrain`"""


@form("drained", "What `r2cc drain --json` and `r2cc undrain --json` print")
@dataclass(frozen=True)
class Drained:
    host: str
    nic: str
    draining: bool
    connections_left: int | None
    """that still go over it; null: nobody looked"""


def place_of(text: str) -> Place:
    """UsageError for what is no HOST:NIC."""
    host, colon, nic = text.rpartition(":")
    if not colon or not NAME.fullmatch(host) or not NAME.fullmatch(nic):
        raise UsageError(f"{text!r} is no HOST:NIC", "write it as h1:eth2; `r2cc health --json` lists them")
    return Place(host, nic)


def file_of(folder: Path, place: Place) -> Path:
    return folder / f"{OF_DRAINS}{place.host}-{place.nic}.json"


def drain(folder: Path, place: Place, for_s: float | None = None) -> Path:
    """Asks for it. UsageError where the folder is not to be written to."""
    from harness.schemas import dumped

    until = None if for_s is None else int(time.time() + for_s)
    path = write_whole(file_of(folder, place), dumped(Drain(place.host, place.nic, until)) + "\n")
    try:
        path.chmod(0o644)  # whatever the umask says: others must not write to it, the job must read it
    except OSError as error:
        raise failed(path, error) from error
    return path


def undrain(folder: Path, place: Place) -> None:
    """UsageError when it is not asked for."""
    try:
        file_of(folder, place).unlink()
    except FileNotFoundError:
        drained = ", ".join(sorted(str(each) for each in drains_in(folder))) or "none"
        raise UsageError(f"{place} is not drained", f"drained here: {drained}") from None
    except OSError as error:
        raise failed(file_of(folder, place), error) from error


def drains_in(folder: Path) -> list[Place]:
    found = []
    for file in folder.glob(f"{OF_DRAINS}*.json"):
        try:
            value = json.loads(file.read_text(encoding="utf-8"))
            found.append(Place(str(value["host"]), str(value["nic"])))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


def check_alternative(status: Path, place: Place) -> None:
    """Refused where no other NIC of the host works; UsageError where its processes have no such NIC."""
    processes = _of_host(status, place)
    for process in processes:
        names = [nic.name for nic in process.nics]
        if not any(_is(nic, place.nic) for nic in process.nics):
            raise UsageError(
                f"process {process.pid} on {place.host} has no NIC {place.nic}", f"it has {', '.join(names)}"
            )
        others = [nic for nic in process.nics if not _is(nic, place.nic)]
        if not any(nic.state in ("up", "degraded") for nic in others):
            raise Refused(f"{place} is the last NIC of process {process.pid} that works", "bring another back first")


def unseen(status: Path, place: Place) -> str:
    """Why nobody can see whether the NIC is left; empty: its host's processes report. A host that is misspelt must not
    look like one that has left."""
    if _of_host(status, place):
        return ""
    others = ", ".join(sorted({process.host for process in read_folder(status).live})) or "none"
    return f"No process of {place.host} reports in {status} (of hosts there: {others}), so nobody sees whether it is"


def left_on(status: Path, place: Place) -> tuple[int, int]:
    """How many processes have taken note, and how many connections still go over the NIC."""
    nics = [nic for process in _of_host(status, place) for nic in process.nics if _is(nic, place.nic)]
    return sum(nic.state == "draining" for nic in nics), sum(nic.connections_here for nic in nics)


def wait_until_left(status: Path, place: Place, limit_s: float, sleep: Callable[[float], None] = time.sleep) -> int:
    """The connections that are still there when the time is up, or 0 once two looks in a row find none: one alone may
    miss a file that is renamed just then."""
    end = time.monotonic() + limit_s
    seen = 0
    while True:
        processes = len(_of_host(status, place))
        noted, left = left_on(status, place)
        seen = seen + 1 if processes == noted and left == 0 else 0
        if seen == 2:
            return 0
        if time.monotonic() >= end and not seen:
            return max(left, processes - noted)
        sleep(POLL_S)


def _of_host(status: Path, place: Place) -> list[Status]:
    return read_folder(status, place.host.split(".")[0] if "." not in place.host else place.host).live


def _is(nic: Nic, name: str) -> bool:
    return name in (nic.name, nic.device)
