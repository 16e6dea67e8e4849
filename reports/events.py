"""What happened, in order: faults, links, NICs and paths as rows of a table, many alike folded into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reports.trace import Json, Trace
from reports.units import ms

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
    onset = next((w.start_ns for w in trace.windows()), None)
    lines = sorted((e for e in trace.events if e["event"] in SHOWN), key=lambda e: int(e["t_ns"]))
    folded = [_row(group, trace.origin_ns(), onset) for group in _fold(lines)]
    return folded[:MAX_ROWS], max(0, len(folded) - MAX_ROWS)


def _fold(lines: Sequence[Json]) -> list[list[Json]]:
    """Groups path lines that say the same within 20 ms, whichever hosts they come from."""
    groups: list[list[Json]] = []
    latest: dict[tuple[object, ...], list[Json]] = {}
    for line in lines:
        key = _key(line)
        group = latest.get(key)
        if line["event"] == "path" and group and int(line["t_ns"]) - int(group[0]["t_ns"]) < FOLD_NS:
            group.append(line)
            continue
        groups.append([line])
        latest[key] = groups[-1]
    return groups


def _key(line: Json) -> tuple[object, ...]:
    return (
        line["event"],
        line.get("state"),
        line.get("cause"),
        line.get("epoch"),
        line.get("nic"),
    )


def _row(group: Sequence[Json], origin_ns: int, onset_ns: int | None) -> EventRow:
    first = group[0]
    t_ns = int(first["t_ns"])
    hosts = ", ".join(dict.fromkeys(str(line.get("host", "")) for line in group))
    after = "" if onset_ns is None else f"{'+' if t_ns >= onset_ns else '−'}{ms(abs(t_ns - onset_ns) / 1e6)}"
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
    replayed = sum(int(line.get("replayed") or 0) for line in group)
    many = f"{len(group)} connections" if len(group) > 1 else f"connection {first.get('connection')}"
    text = f"{many} {first.get('state')} on {first.get('nic')}, epoch {first.get('epoch', '?')}"
    return text + (f", {replayed} messages sent again" if replayed else "") + _because(first)


def _because(line: Json) -> str:
    return f" (told by {line['cause']})" if line.get("cause") else ""


_WORDS: dict[str, Callable[[Json], str]] = {
    "fault": lambda line: f"{line.get('kind')} on {line.get('nic')}: {line.get('phase')}",
    "link": lambda line: f"link {line.get('nic')} went {'up' if line.get('up') else 'down'}",
    "nic": lambda line: f"R2CC holds {line.get('nic')} to be {line.get('state')}" + _because(line),
    "probe": lambda line: f"probe {line.get('id', '')}: {'holds' if line.get('holds') else 'does not hold'}",
    "run_end": _run_end,
}
