"""What the net library did with connections: moved off their home NICs, brought back, or gave up. Pure.

A *failover* is a connection frozen at its sending end; `net_end` counts them too, and the larger of both counts: a rank
that was killed says nothing at its end, and a line may be lost with it. Frozen until the receiver closed it is none: at
a job's end a lane may break before the receiver's goodbye is here.
"""

from __future__ import annotations

from collections.abc import Sequence

from chaos.analysis.rundata import Line, RunData

Stream = tuple[str, str, str, str]
"""Host, direction, peer and number: one end of a connection, as the net library names it."""


def stream_of(line: Line) -> Stream:
    return (line["host"], str(line.get("direction", "")), str(line.get("peer", "")), str(line["connection"]))


def failovers(data: RunData) -> int:
    """Of all connections of all ranks; 0 in a run of stock."""
    frozen: int = sum(line["state"] == "frozen" for line in moves(data))
    return max(frozen, sum(int(line["failovers"]) for line in data.by_event.get("net_end", [])))


def shared_out(data: RunData) -> int:
    """How often a sending end gave part of its traffic to other NICs, or other parts, because some seemed slow."""
    return sum(line["state"] == "active" and line.get("cause") == "balance" for line in moves(data))


def not_returned(data: RunData) -> int:
    """Sending ends that were not on their home NIC when they were last active."""
    last = {
        stream_of(line): line for line in moves(data) if line["state"] in ("active", "frozen", "holding", "exchanging")
    }
    return sum(not _at_home(line) for line in last.values())


def moves(data: RunData) -> list[Line]:
    """The path lines of sending ends, without those that only led to an orderly close."""
    found: list[Line] = []
    latest: dict[Stream, list[Line]] = {}  # of each stream, since it was last active or without a path
    for line in data.by_event.get("path", []):
        if line.get("direction") != "send":
            continue
        begun = latest.setdefault(stream_of(line), [])
        if line["state"] in ("frozen", "exchanging"):
            begun.append(line)
            continue
        if line["state"] != "closed":
            found += begun
        begun.clear()
        found.append(line)
    return found + [line for begun in latest.values() for line in begun]


def _at_home(line: Line) -> bool:
    """Active, and its home NIC carries all of it (`shares` names the NICs where there are several)."""
    alone = "," not in line.get("shares", "")
    return line["state"] == "active" and alone and line.get("home_nic") in (None, line["nic"])


def error_after_ms(data: RunData) -> float | None:
    """From the first fault's onset to the first error of the last rank; None unless every rank left alive had one."""
    killed = {line["rank"] for line in data.by_event.get("fault", []) if line["kind"] == "kill" and "rank" in line}
    onset_ns = min((fault.onset_ns for fault in data.faults if fault.onset_ns is not None), default=None)
    first: dict[int, int] = {}
    for line in data.by_event.get("error", []):
        if "rank" in line:
            first.setdefault(int(line["rank"]), int(line["t_ns"]))
    if onset_ns is None or not data.host_of or set(data.host_of) - killed - set(first):
        return None
    return (max(first.values()) - onset_ns) / 1e6


def unmentioned(errors: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Texts that no error holds; the host that each begins with is ours and does not count."""
    messages = [error.partition(": ")[2] for error in errors]
    return [text for text in wanted if not any(text in message for message in messages)]
