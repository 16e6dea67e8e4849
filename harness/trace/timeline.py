"""Both ends of a connection, and their processes, as one list of things that happened, messages gathered into rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from harness.schemas.form import growing
from harness.trace.dump import Record
from harness.trace.story import End, Process, Story

MESSAGES = ("post", "done", "released")


@growing
@dataclass(frozen=True)
class Row:
    """One thing, or `count` messages in a row of one kind on one lane. t_ns and last_ns are the common clock's."""

    t_ns: int
    last_ns: int
    host: str
    end: str
    event: str
    number: int
    count: int
    bytes: int
    lane: int
    nic: str
    epoch: int
    what: str


def rows(story: Story, end: End, start_ns: int, end_ns: int, *, gather: bool = True) -> list[Row]:
    """What happened at both ends of `end`'s connection from start_ns to end_ns, in order of time."""
    ends = [one for one in (end, story.other(end)) if one is not None]
    found = [row for one in ends for row in _messages(one, start_ns, end_ns, gather=gather)]
    found += [_event(one, r) for one in ends for r in one.events.values() if start_ns <= r.t_ns <= end_ns]
    for process in {id(one.process): one.process for one in ends}.values():
        found += [_of_process(process, r) for r in process.events.values() if start_ns <= r.t_ns <= end_ns]
    return sorted(found, key=lambda row: (row.t_ns, row.host))


def all_rows(story: Story) -> Iterator[Row]:
    """Every record of every process, nothing gathered: for --csv."""
    found = [_of_process(process, r) for process in story.processes.values() for r in process.events.values()]
    for end in story.ends():
        found += _messages(end, 0, 1 << 63, gather=False)
        found += [_event(end, record) for record in end.events.values()]
    yield from sorted(found, key=lambda row: (row.t_ns, row.host))


def _messages(end: End, start_ns: int, end_ns: int, *, gather: bool) -> list[Row]:
    """Posts, completions and releases; ascending numbers on one lane are gathered into one row."""
    lanes = end.lanes()
    found: list[Row] = []
    open_rows: dict[str, int] = {}
    for _, r in sorted(end.messages.items()):
        if not start_ns <= r.t_ns <= end_ns:
            continue
        at = open_rows.get(r.kind)
        if gather and at is not None and _continues(found[at], r):
            last = found[at]
            found[at] = replace(last, last_ns=r.t_ns, count=last.count + 1, bytes=last.bytes + r.bytes)
            continue
        open_rows[r.kind] = len(found)
        nic = lanes[r.lane][0] if r.lane in lanes else ""
        found.append(_row(end.process, end.name, r, nic=nic, what=""))
    return found


def _continues(row: Row, r: Record) -> bool:
    """Rows end where a lane or an epoch changes, a number is skipped, or more than a millisecond passes."""
    same = (row.lane, row.epoch, row.number + row.count) == (r.lane, r.epoch, r.number)
    return same and r.t_ns - row.last_ns < 1_000_000


def _row(
    process: Process, end: str, r: Record, *, nic: str, what: str, event: str = "", epoch: int | None = None
) -> Row:
    return Row(
        t_ns=r.t_ns, last_ns=r.t_ns, host=process.label, end=end, event=event or r.kind, number=r.number, count=1,
        bytes=r.bytes if r.kind in MESSAGES else 0, lane=r.lane, nic=nic, epoch=r.epoch if epoch is None else epoch,
        what=what,
    )  # fmt: skip


def _event(end: End, r: Record) -> Row:
    lanes = end.lanes()
    nic = lanes[r.lane][0] if r.lane in lanes else ""
    return _row(end.process, end.name, r, nic=nic, what=_said(end, r))


def _said(end: End, r: Record) -> str:
    """A rare record in words."""
    words = {
        "state": f"{end.state(r)}: {r.text}",
        "lane_up": f"to the peer's NIC {r.bytes & 0xFFFF}",
        "lane_down": r.text,
        "freeze": f"go on with lane {r.lane}; messages below {r.number} are released",
        "fenced": f"the receiver has all below {r.number}" + ("" if r.code else "; the lane cannot be used"),
        "switch": f"proposes lane {r.lane} from message {r.number}",
        "switched": f"agreed: from message {r.number}",
        "replay": f"{r.bytes} messages go out again, from {r.number}",
    }
    return words.get(r.kind, r.text)


def _of_process(process: Process, r: Record) -> Row:
    nic = process.nic(r.bytes >> 16)
    if r.kind == "nic":
        return _row(process, "", r, nic=nic, what=f"link {'up' if r.code else 'down'} ({r.text})")
    states = process.header["path_states"]
    state = states[r.code] if r.code < len(states) else f"state {r.code}"
    what = f"to NIC {r.bytes & 0xFFFF} of {process.text(r.epoch)} is {state} ({r.text})"
    return _row(process, "", r, nic=nic, what=what, epoch=0)
