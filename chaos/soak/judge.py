"""What became of a round: whether it failed, and what each of its faults did. Pure: from journal lines alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from chaos.analysis.moves import stream_of
from chaos.analysis.paths import addresses
from chaos.analysis.rundata import FaultTimes, Line, RunData, read_run
from chaos.run.arm import HUNG, STANDSTILL
from harness.schemas.form import Count, ExitCode, form, growing, left_out
from harness.workloads.reading.steps import FOREIGN

NOTICE_NS = 500_000_000
"""How long after its onset a fault may still be the reason that a connection moves."""
STALLED_S, COMMANDS = 15.0, 10
"""No fault of a soak lasts for more than a few seconds; a healthy iteration takes a tenth of one. Where a machine is
so busy that a fault's command takes seconds, an iteration may take as long as ten of the slowest."""
OF_SHORTEST = 30
"""Somebody's own iterations may take longer than those of the soak."""
BLAME_NS = 3_000_000_000
"""Faults that strike later than this into an iteration that stands still are not why it does."""
KEPT = {"run_start", "run_end", "fault", "path", "nic", "net_end", "bench_start", "bench_end", "error", "log"}
"""What is kept of the journal of a round that went well."""


@dataclass(frozen=True)
class Fate:
    """One fault: how many sending ends it moved off their lanes, and how many of those came home afterwards."""

    id: str
    kind: str
    nics: Count
    moved: Count
    returned: Count


@dataclass(frozen=True)
class OfKind:
    """Faults of a kind, those that moved something, connections moved, connections that came home."""

    faults: Count
    moving: Count
    moved: Count
    returned: Count


@growing
@dataclass(frozen=True)
class Failure:
    """The round that failed, and what it was made smaller to."""

    round: Count
    why: str
    faults: Count | None = left_out()
    replay: str | None = left_out()
    replay_faults: Count | None = left_out()
    reproduced: bool | None = left_out()
    attempts: Count | None = left_out()


@form("soak", "soak.json; printed without fates")
@dataclass(frozen=True, kw_only=True)
class Report:
    """What a soak came to."""

    outcome: Literal["passed", "failed", "infrastructure", "interrupted"]
    exit_code: ExitCode
    reason: str | None
    seed: int
    arm: str
    net: Literal["socket", "ib"]
    build_id: str | None
    round_s: float
    rounds: Count
    excused_rounds: Count
    faults: Count
    iterations: Count
    bytes_checked: Count
    connections_failed_over: Count
    connections_failed_back: Count
    minutes: float
    by_kind: Mapping[str, OfKind]
    failure: Failure | None
    fates: Sequence[Fate] | None = left_out()
    missed: Count | None = left_out()
    """Faults that were drawn and never struck; None: of an earlier version, which did not count them."""
    under: str | None = left_out()
    """The experiment whose topology and workload it has; None: those of the soak."""
    under_digest: str | None = left_out()
    """SHA-256 of what it takes from there."""


def failure(lines: Sequence[Line], ranks: int, *, own: bool = False, asked: int | None = None) -> str | None:
    """Why a round failed; None: every rank ended well, in good time, and every byte was right. `own`: of somebody's own
    workload, whose iterations and warm-up may take longer; `asked`: how many it had to do, where it is told that."""
    return wrong(lines) or _slow(lines, own=own) or _unfinished(lines, ranks) or _lacking(lines, asked)


def wrong(lines: Sequence[Line]) -> str | None:
    """How many elements were, and where first."""
    found = [line for line in lines if line["event"] == "iteration" and line["wrong_elements"]]
    count = sum(line["wrong_elements"] for line in found)
    return (
        f"{count} wrong elements, first in iteration {found[0]['index']} on rank {found[0]['rank']}" if found else None
    )


def left_out_nics(lines: Sequence[Line], nics: int) -> str | None:
    """Which rank of ours runs without one of its host's NICs, if any does: what is broken on that one hits nobody.
    (Stock leaves out a port that is down at its start.)"""
    for line in lines:
        if line["event"] == "bench_start" and line["mode"] and len(line["nics"]) < nics:
            return f"rank {line['rank']} used {', '.join(line['nics'])} alone"
    return None


def _slow(lines: Sequence[Line], *, own: bool) -> str | None:
    slow = _stalled(lines, own=own)
    if not slow or any(line["event"] == "log" and STANDSTILL in line["message"] for line in lines):
        return None
    return f"iteration {slow[0]['index']} took {_seconds(slow[0]):.0f} s: nothing was broken for so long"


def _stalled(lines: Sequence[Line], *, own: bool) -> list[Line]:
    commands = [line for line in lines if line["event"] == "command" and "started_ns" in line]
    slowest_s = max((float(line["t_ns"] - line["started_ns"]) / 1e9 for line in commands), default=0.0)
    most_s = max(STALLED_S, COMMANDS * slowest_s)
    found = [line for line in lines if line["event"] == "iteration" and not (own and line["index"] < 0)]
    if own:
        most_s = max(most_s, OF_SHORTEST * min(map(_seconds, found), default=0.0))
    return [line for line in found if _seconds(line) > most_s]


def _unfinished(lines: Sequence[Line], ranks: int) -> str | None:
    end = next((line for line in lines if line["event"] == "run_end"), None)
    if end is None:
        return "the journal stops before the run ended"
    if end["outcome"] != "finished":
        return str(end.get("reason") or end["outcome"])
    logs = [line["message"] for line in lines if line["event"] == "log" and HUNG in line["message"]]
    if logs:
        return str(logs[0])
    errors = [f"rank {line.get('rank', '?')}: {line['message']}" for line in lines if line["event"] == "error"]
    errors += [f"{rank} ended with exit code {code}" for rank, code in end["exit_codes"].items() if code != 0]
    ends = [line for line in lines if line["event"] == "bench_end"]
    speak = {line["rank"] for line in lines if line["event"] == "bench_start" and line["op"] in FOREIGN}
    ranks = len(speak) or ranks  # of programs that are not ours some print nothing; their exit codes are known
    if errors or (len(ends) == ranks and len({line["completed"] for line in ends}) == 1):
        return next(iter(errors), None)
    return f"{len(ends)} of {ranks} ranks ended well"


def _lacking(lines: Sequence[Line], asked: int | None) -> str | None:
    """What a program that ended well did not do."""
    for end in (line for line in lines if line["event"] == "bench_end"):
        if asked is not None and end["completed"] != asked:
            return f"rank {end['rank']} did {end['completed']} of {asked} iterations"
        if not end.get("checked", True):
            return f"rank {end['rank']} did not look at its results"
    return None


def cycle_s(lines: Sequence[Line], cycles: int) -> float:
    """How long one of these cycles took on average. ValueError when no time of any is known."""
    done = [line for line in lines if line["event"] == "iteration" and line["index"] >= 0]
    if not done or (took_ns := max(line["end_ns"] for line in done) - min(line["start_ns"] for line in done)) <= 0:
        raise ValueError("it left no times of its iterations")
    return float(took_ns) / 1e9 / cycles


def _seconds(line: Line) -> float:
    """What stalled beside it, in operations that the program does not time, is its own, too."""
    return float(line["end_ns"] - line["start_ns"]) / 1e9 + float(line.get("beside_ms", 0.0)) / 1e3


def failed_at_ns(lines: Sequence[Line], *, own: bool = False) -> int | None:
    """When it was first seen: what was injected later is not to blame. A hang began when the last iteration did."""
    seen = [
        int(line["t_ns"])
        for line in lines
        if line["event"] == "error" or (line["event"] == "iteration" and line["wrong_elements"])
    ]
    slow = [int(line["start_ns"]) + BLAME_NS for line in _stalled(lines, own=own)]
    moves = [int(line["t_ns"]) for line in lines if line["event"] in ("progress", "iteration")]
    return min(seen + slow, default=max(moves, default=None))


def injected_before(lines: Iterable[Line], limit_ns: int | None) -> set[str]:
    """Faults that had struck by then."""
    return {
        line["id"]
        for line in lines
        if line["event"] == "fault" and line["phase"] == "injected" and (limit_ns is None or line["t_ns"] <= limit_ns)
    }


def fates(lines: Sequence[Line]) -> list[Fate]:
    """Every fault that was injected, in order."""
    data = read_run(lines)
    return [_fate(data, fault) for fault in data.faults if fault.onset_ns is not None]


def missed(lines: Sequence[Line]) -> int:
    """Faults that were drawn and never struck: late by two seconds, or where another one still was."""
    return sum(fault.onset_ns is None for fault in read_run(lines).faults)


def _fate(data: RunData, fault: FaultTimes) -> Fate:
    begin = fault.onset_ns or 0
    end = begin + NOTICE_NS if fault.reverted_ns is None else max(begin + NOTICE_NS, fault.reverted_ns)
    hosts, over = addresses(data), fault.reverted_ns or end
    moved = {
        stream_of(line)
        for line in _sending(data)
        if line["state"] == "frozen" and begin <= line["t_ns"] <= end and _ends(data, line, hosts) & fault.nics
    }
    back = {
        stream_of(line)
        for line in _sending(data)
        if line["state"] == "active" and line["nic"] == line.get("home_nic") and line["t_ns"] > over
    }
    return Fate(fault.id, fault.kind, len(fault.nics), len(moved), len(moved & back))


def _sending(data: RunData) -> list[Line]:
    return [line for line in data.by_event.get("path", []) if line.get("direction") == "send"]


def _ends(data: RunData, line: Line, hosts: dict[str, str]) -> set[tuple[str, str]]:
    """Both NICs of the lane that a line speaks of."""
    found = {(line["host"], line["nic"])}
    peer, index = hosts.get(str(line.get("peer"))), line.get("peer_nic")
    names: list[str] = next(
        (start["nics"] for start in data.by_event.get("bench_start", []) if start["host"] == peer), []
    )
    if peer is not None and isinstance(index, int) and index < len(names):
        found.add((peer, names[index]))
    return found


def totals(found: Iterable[Fate]) -> dict[str, OfKind]:
    """By kind."""
    kinds: dict[str, list[Fate]] = {}
    for fate in found:
        kinds.setdefault(fate.kind, []).append(fate)
    return {kind: _total(fates) for kind, fates in sorted(kinds.items())}


def _total(fates: Sequence[Fate]) -> OfKind:
    moved = [fate.moved for fate in fates]
    return OfKind(len(fates), sum(map(bool, moved)), sum(moved), sum(fate.returned for fate in fates))


def trimmed(lines: Iterable[Line]) -> list[Line]:
    """The lines worth keeping when nothing went wrong."""
    return [line for line in lines if line["event"] in KEPT]
