"""What happened, in order: faults, links, NICs and paths as rows of a table, many alike folded into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reports.reading.trace import Json, Trace, moment_ns
from reports.words.units import ms

FOLD_NS = 20_000_000
MAX_ROWS = 120
MAX_MESSAGE = 400
SHOWN = frozenset({"fault", "link", "nic", "path", "error", "log", "probe", "run_end"})


@dataclass(frozen=True)
class EventRow:
    """One moment: seconds on the page's axis, distance to the fault's onset, where and what."""

    at_s: float
    after_fault: str
    host: str
    kind: str
    what: str


def rows(trace: Trace) -> tuple[list[EventRow], int]:
    """The rows to show and how many more the journal holds."""
    windows = trace.windows()
    onset_ns = windows[0].start_ns if windows else None
    lines = sorted((e for e in trace.events if e["event"] in SHOWN), key=moment_ns)
    folded = [_row(group, trace.origin_ns(), onset_ns) for group in _fold(lines, trace)]
    return folded[:MAX_ROWS], max(0, len(folded) - MAX_ROWS)


def _fold(lines: Sequence[Json], trace: Trace) -> list[list[Json]]:
    """Groups path lines that say the same within 20 ms, whichever hosts they come from; set-up and end fold whole."""
    start_ns, end_ns = trace.origin_ns(), trace.end_ns()
    groups: list[list[Json]] = []
    latest: dict[tuple[object, ...], list[Json]] = {}
    for line in lines:
        quiet = line["event"] == "path" and bool(trace.iterations) and not start_ns <= moment_ns(line) <= end_ns
        key = (line.get("state"), moment_ns(line) < start_ns) if quiet else _key(line)
        group = latest.get(key)
        if line["event"] == "path" and group and (quiet or moment_ns(line) - moment_ns(group[0]) < FOLD_NS):
            group.append(line)
            continue
        groups.append([line])
        latest[key] = groups[-1]
    return groups


def _key(line: Json) -> tuple[object, ...]:
    return (line["event"], line.get("state"), line.get("cause"), line.get("epoch"), line.get("nic"))


def _row(group: Sequence[Json], origin_ns: int, onset_ns: int | None) -> EventRow:
    first = group[0]
    t_ns = moment_ns(first)
    after = "" if onset_ns is None else f"{'+' if t_ns >= onset_ns else '−'}{ms(abs(t_ns - onset_ns) / 1e6)}"
    hosts = ", ".join(sorted({str(line.get("host", "")) for line in group}))
    return EventRow((t_ns - origin_ns) / 1e9, after, hosts, str(first["event"]), describe(group))


def describe(group: Sequence[Json]) -> str:
    """A group of like events in words; a kind that has none says its message."""
    first = group[0]
    if first["event"] == "path":
        return _describe_paths(group)
    words = _WORDS.get(first["event"])
    return words(first) if words else str(first.get("message", ""))[:MAX_MESSAGE]


def _run_end(line: Json) -> str:
    return f"run ended: {line.get('outcome', '')}" + (f", {line['reason']}" if line.get("reason") else "")


def _describe_paths(group: Sequence[Json]) -> str:
    first = group[0]
    count = len({(str(line.get("host")), str(line.get("connection"))) for line in group})
    many = f"{count} connections" if count > 1 else f"connection {first.get('connection')}"
    nics = sorted({str(line["nic"]) for line in group if line.get("nic")})
    text = f"{many} {first.get('state')}" + (f" on {', '.join(nics)}" if nics else "")
    replayed = sum(int(line.get("replayed") or 0) for line in group)
    text += f", epoch {first.get('epoch', '?')}" + (f", {replayed} messages sent again" if replayed else "")
    return text + (_because(first) if len({str(line.get("cause")) for line in group}) == 1 else "")


def _because(line: Json) -> str:
    return f" ({line['cause']})" if line.get("cause") else ""


_WORDS: dict[str, Callable[[Json], str]] = {
    "fault": lambda line: f"{line.get('kind')} on {line.get('nic')}: {line.get('phase')}",
    "link": lambda line: f"link {line.get('nic')} went {'up' if line.get('up') else 'down'}",
    "nic": lambda line: f"R2CC holds {line.get('nic')} to be {line.get('state')}" + _because(line),
    "probe": lambda line: f"probe {line.get('id', '')}: {'holds' if line.get('holds') else 'does not hold'}",
    "run_end": _run_end,
}
