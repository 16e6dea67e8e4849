"""What happened to a whole job, by the status files that its processes left: what failed, what was carried, what it
saved. Pure, but for `kept` and `read`, which gather the files of all hosts in one folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from harness.schemas.form import Amount, Count, form
from harness.watch.status import Folder, Status, read_folder

SAME_S = 10.0
"""Processes find a NIC down at different times: within so many seconds it is one failure."""


@dataclass(frozen=True)
class NicStory:
    host: str
    nic: str
    failures: Count
    down_s: Amount
    """in all, until the job's last word of it"""
    still_down: bool


@form("job_report", "What `r2cc job-report --json` prints")
@dataclass(frozen=True)
class JobReport:
    verdict: Literal["quiet", "carried", "lost"]
    """quiet: nothing happened, or R2CC was not in the path; both leave no file. lost: connections failed for good"""
    job: str
    hosts: list[str]
    """with processes that something happened to"""
    processes: Count
    began_unix_s: float | None
    ended_unix_s: float | None
    nics: list[NicStory]
    failures: Count
    carried: Count
    """of these: all but what connections were lost to"""
    failovers: dict[str, int]
    """connections that moved off a failure, by cause, of all processes"""
    failbacks: Count
    connections_lost: Count
    stood_still_s: Amount
    """the longest that one process had some connection that stood still"""
    held_s: Amount
    restarts_avoided: Count
    """carried failures; those within one restart's time of the first count once, as a job that restarts meets none"""
    restart_minutes: Amount
    gpus: Count | None
    """null: nobody says"""
    gpu_hours_saved: float | None
    """restarts avoided x restart_minutes x gpus, less what stood still; what was computed since the last checkpoint
    comes on top"""
    problems: list[str]


@dataclass(frozen=True)
class Outage:
    """A NIC that was down. `ended`: None when the last word of it was that it is."""

    host: str
    nic: str
    began: float
    ended: float | None


def judged(
    job: str, found: Sequence[Status], restart_minutes: float, gpus: int | None, problems: Sequence[str] = ()
) -> JobReport:
    """Of the processes of one job. `restart_minutes`: what the site loses by one restart."""
    outages = _outages(found)
    lost = sum(each.totals.connections_lost for each in found)
    stood = max((each.totals.stalled_s for each in found), default=0.0)
    avoided = _apart([outage.began for outage in outages], restart_minutes * 60) - (lost > 0)
    avoided = max(0, avoided)
    saved = None if gpus is None else max(0.0, avoided * restart_minutes / 60 - stood / 3600) * gpus
    causes: dict[str, int] = {}
    for cause, count in (item for each in found for item in each.totals.failovers.items()):
        causes[cause] = causes.get(cause, 0) + count
    return JobReport(
        "lost" if lost else "carried" if outages or causes else "quiet",
        job,
        sorted({each.host for each in found}),
        len(found),
        min((each.started_unix_s for each in found), default=None),
        max((each.updated_unix_s for each in found), default=None),
        _stories(outages, found),
        len(outages),
        len(outages) - (lost > 0 and bool(outages)),
        dict(sorted((cause, count) for cause, count in causes.items() if count)),
        sum(each.totals.failbacks for each in found),
        lost,
        round(stood, 3),
        round(max((each.totals.held_s for each in found), default=0.0), 3),
        avoided,
        restart_minutes,
        gpus,
        None if saved is None else round(saved, 2),
        [*problems],
    )


def _outages(found: Sequence[Status]) -> list[Outage]:
    """As the processes of a NIC's own host saw it, each failure once, by time."""
    seen: dict[tuple[str, str], list[Outage]] = {}
    for status in found:
        for nic in status.nics:
            own = [event for event in status.events if event.nic in (nic.name, nic.device)]
            seen.setdefault((status.host, nic.name), []).extend(_of_events(status, nic.name, own))
            if nic.state == "down" and not own:  # more happened than the file keeps
                seen[status.host, nic.name].append(Outage(status.host, nic.name, nic.since_unix_s, None))
    merged = [outage for each in seen.values() for outage in _merged(each)]
    return sorted(merged, key=lambda outage: outage.began)


def _of_events(status: Status, nic: str, events: Iterable[object]) -> list[Outage]:
    outages: list[Outage] = []
    for event in events:
        at, state = float(getattr(event, "at_unix_s")), getattr(event, "state")  # noqa: B009
        down = bool(outages) and outages[-1].ended is None
        if state == "down" and not down:
            outages.append(Outage(status.host, nic, at, None))
        elif state in ("up", "degraded") and down:
            outages[-1] = replace(outages[-1], ended=at)
    return outages


def _merged(outages: Sequence[Outage]) -> list[Outage]:
    found: list[Outage] = []
    for outage in sorted(outages, key=lambda each: each.began):
        if found and outage.began - found[-1].began <= SAME_S:
            ends = (found[-1].ended, outage.ended)
            found[-1] = replace(found[-1], ended=None if None in ends else max(end for end in ends if end is not None))
        else:
            found.append(outage)
    return found


def _stories(outages: Sequence[Outage], found: Sequence[Status]) -> list[NicStory]:
    last = {host: max(each.updated_unix_s for each in found if each.host == host) for host in {e.host for e in found}}
    places = sorted({(outage.host, outage.nic) for outage in outages})
    told = []
    for host, nic in places:
        own = [outage for outage in outages if (outage.host, outage.nic) == (host, nic)]
        ends = [last[host] if outage.ended is None else outage.ended for outage in own]
        down_s = sum(end - outage.began for end, outage in zip(ends, own, strict=True))
        told.append(NicStory(host, nic, len(own), round(max(0.0, down_s), 1), own[-1].ended is None))
    return told


def _apart(times: Sequence[float], least_s: float) -> int:
    """How many of them are at least so far from the one that counted before."""
    count, last = 0, float("-inf")
    for time in sorted(times):
        if time - last >= least_s:
            count, last = count + 1, time
    return count


def of_job(folder: Path, job: str) -> Folder:
    """The files of one job, whatever their age."""
    found = read_folder(folder, whatever_age=True)
    mine = [[each for each in part if job in ("", each.job)] for part in (found.live, found.ended)]
    return replace(found, live=mine[0], ended=mine[1])


def kept(folder: Path, job: str, into: Path) -> None:
    """Moves the files of a job that has ended here into `into`, which all hosts share. UsageError where it cannot be
    written. What is written is what was understood here: no file of another kind, no link."""
    from harness.files.writing import write_whole
    from harness.schemas import dumped

    found = of_job(folder, job)
    for status in (*found.live, *found.ended):
        text = dumped(status)
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        write_whole(into / f"{Path(status.host).name}-{status.pid}-{digest}.json", text + "\n")
    for file in found.files:
        if found.files[file].job == job:
            file.unlink(missing_ok=True)
