"""A trace for people: a table of connections, then a timeline for each gap."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from typing import TextIO

from harness.trace.facts import ShownConnection, ShownGap, Trace
from harness.trace.timeline import Row

HEAD = ("connection", "peer", "home", "messages", "MiB", "lanes", "epochs", "longest gap", "state")


def render(found: Trace, gap_ms: dict[str, float], width: int) -> Iterator[str]:
    """All lines, none wider than `width`."""
    for line in _lines(found, gap_ms):
        yield line if len(line) <= width else line[: width - 1] + "…"


def _lines(found: Trace, gap_ms: dict[str, float]) -> Iterator[str]:
    hosts = ", ".join(f"{p.name} (pid {p.pid})" for p in found.processes)
    yield f"{len(found.files)} dumps of {len(found.processes)} processes: {hosts}"
    if not found.exact_clock:
        yield "hosts are compared by their wall clocks: times across hosts are as good as those"
    yield ""
    yield from _table([HEAD, *(_summary(one, gap_ms.get(one.name)) for one in found.connections)])
    for gap in found.gaps:
        yield ""
        yield from _gap(gap)


def _summary(one: ShownConnection, gap_ms: float | None) -> tuple[str, ...]:
    lanes = " ".join(f"{lane.lane}:{lane.nic or '?'}" for lane in one.lanes)
    epochs = f"{one.epochs[0]}-{one.epochs[-1]}" if one.epochs else ""
    gap = "" if gap_ms is None else f"{gap_ms:.1f} ms"
    size = f"{one.bytes / 2**20:.1f}"
    return one.name, one.peer, one.home_nic, str(one.messages), size, lanes, epochs, gap, one.state


def _table(lines: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def _gap(gap: ShownGap) -> Iterator[str]:
    yield f"{gap.connection}: nothing delivered for {gap.gap_ms:.1f} ms, until message {gap.number}"
    cause = gap.cause
    if cause is None:
        late = "the peer was late" if gap.sender_known else "the peer was late or had nothing to send"
        yield f"  why: no failover explains it: {late}, or the link slow (`--around failover` shows what failures made)"
    else:
        nic = f" {cause.nic}" if cause.nic else ""
        after = f"{cause.after_ms:+.1f} ms from its start"
        yield f"  why: {cause.host}{nic}: {cause.what} ({cause.cause}), {after}"
    if not gap.sender_known:
        yield "  the sender's dump does not say when it was posted: the time it had nothing to send is included"
    yield from _table([("ms", "where", "event", "nic", "what"), *(_row(row, gap.start_ns) for row in gap.timeline)])


def _row(row: Row, zero_ns: int) -> tuple[str, ...]:
    where = row.end or row.host
    return f"{(row.t_ns - zero_ns) / 1e6:+9.3f}", where, row.event, row.nic, _what(row)


def _what(row: Row) -> str:
    if row.event not in ("post", "done", "released"):
        return row.what
    last = row.number + row.count - 1
    numbers = str(row.number) if row.count == 1 else f"{row.number}..{last}"
    lane = f" lane {row.lane}" if row.lane else ""
    took = f" until {(row.last_ns - row.t_ns) / 1e6:+.3f} ms" if row.count > 1 else ""
    return f"{numbers}{lane}, {row.bytes / 1024:.0f} KiB{took}"


def write_csv(rows: Iterable[Row], stream: TextIO) -> None:
    """Every row with a header line; times are nanoseconds of the common clock."""
    writer = csv.DictWriter(stream, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
