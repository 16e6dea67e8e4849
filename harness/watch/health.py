"""How a host is, by the status files of its processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.schemas.form import form
from harness.watch.status import Folder, Nic, Status

Verdict = Literal["healthy", "unknown", "carried", "held", "lost"]
VERDICTS: tuple[Verdict, ...] = ("healthy", "unknown", "carried", "held", "lost")
"""From good to bad. Unknown is no problem: a host where no job ran yet has no folder, and is not drained."""
EXIT_CODES: dict[str, int] = {"healthy": 0, "unknown": 0, "carried": 1, "held": 4, "lost": 5}
FAILED: tuple[str, ...] = ("down", "degraded")


@dataclass(frozen=True)
class NicHealth:
    host: str
    nic: str
    device: str
    state: str
    """the worst that any live process says of it"""
    since_unix_s: float
    capacity_percent: int
    connections_here: int
    """of all processes: whose data goes over it now"""
    connections_carried: int
    jobs: list[str]


@form("health", "What `r2cc health --json` prints")
@dataclass(frozen=True)
class Health:
    verdict: Verdict
    """unknown: nothing could be read: no job ran here yet, or this is not where they write. carried: a NIC is down or
    slow, and R2CC carries what was on it. held: connections wait for a path or a lane. lost: some failed for good, now
    or in the last ten minutes"""
    message: str
    processes: int
    jobs: list[str]
    nics: list[NicHealth]
    held: int
    """connections"""
    lost: int
    problems: list[str]
    """what could not be read"""


def judged(folder: Folder) -> Health:
    """Pure. Processes that have ended only count where they lost something."""
    nics = _nics(folder.live)
    held = sum(each.connections.held for each in folder.live)
    lost = sum(each.connections.failed for each in folder.live)
    lost += sum(each.totals.connections_lost for each in folder.ended)
    verdict: Verdict = "unknown" if folder.unknown else "healthy"
    if any(nic.state in FAILED for nic in nics):
        verdict = "carried"
    if held:
        verdict = "held"
    if lost:
        verdict = "lost"
    jobs = sorted({each.job for each in folder.live if each.job})
    message = folder.unknown if verdict == "unknown" else _message(verdict, nics, held, lost, len(folder.live))
    return Health(verdict, message, len(folder.live), jobs, nics, held, lost, folder.problems)


def _nics(processes: list[Status]) -> list[NicHealth]:
    by_name: dict[tuple[str, str], list[tuple[Status, Nic]]] = {}
    for process in processes:
        for nic in process.nics:
            by_name.setdefault((process.host, nic.name), []).append((process, nic))
    return [_nic(host, name, seen) for (host, name), seen in sorted(by_name.items())]


def _nic(host: str, name: str, seen: list[tuple[Status, Nic]]) -> NicHealth:
    order = ("up", "degraded", "draining", "down")
    worst = max((nic for _, nic in seen), key=lambda nic: order.index(nic.state))
    return NicHealth(
        host,
        name,
        worst.device,
        worst.state,
        min(nic.since_unix_s for _, nic in seen if nic.state == worst.state),
        min(nic.capacity_percent for _, nic in seen),
        sum(nic.connections_here for _, nic in seen),
        sum(nic.connections_carried for _, nic in seen),
        sorted({process.job for process, _ in seen if process.job}),
    )


def _message(verdict: Verdict, nics: list[NicHealth], held: int, lost: int, processes: int) -> str:
    """One line. It says what to do with the host, which is what agents and people ask."""
    broken = [f"{nic.host}:{nic.nic} {_state(nic)}" for nic in nics if nic.state in FAILED]
    leaving = [f"{nic.host}:{nic.nic} draining" for nic in nics if nic.state == "draining"]
    named = ", ".join([*broken, *leaving][:8])
    if verdict == "lost":
        return f"{_some(lost)} lost for good{_after(named)}: the job's own restart is wanted"
    if verdict == "held":
        return f"{_some(held)} without any path, held by R2CC{_after(named)}: bring a NIC or its switch back"
    if verdict == "carried":
        return f"{named}: carried by R2CC. Do not drain the node: repair it when its jobs have ended"
    return f"no NIC failed, {processes} process{'' if processes == 1 else 'es'}{_after(named)}"


def _state(nic: NicHealth) -> str:
    return "down" if nic.state == "down" else f"at {nic.capacity_percent} %"


def _some(count: int) -> str:
    return f"{count} connection{'' if count == 1 else 's'}"


def _after(text: str) -> str:
    return f" ({text})" if text else ""
