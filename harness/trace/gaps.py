"""The longest times in which a connection owed a message and delivered none, and what was going on then."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from harness.trace.dump import Record
from harness.trace.story import End, Process, Story

BEFORE_NS = 20_000_000
"""A verdict may come a little before the last delivery: what is in receive buffers is still delivered."""


@dataclass(frozen=True)
class Gap:
    """No delivery at `end` from start_ns to end_ns, though the sender had a message out (or nothing is known of it)."""

    end: End
    start_ns: int
    end_ns: int
    number: int
    sender_known: bool

    @property
    def ms(self) -> float:
        return (self.end_ns - self.start_ns) / 1e6


@dataclass(frozen=True)
class Cause:
    """Why delivery stood still, as far as somebody noted it down."""

    t_ns: int
    host: str
    nic: str
    cause: str
    what: str


def gaps(story: Story, end: End) -> list[Gap]:
    """Every gap of a receiving end, longest first.

    A gap begins with the delivery before, or with the sender's first post of the message if that was later: the time in
    which nobody had anything to send is not the connection's. Where records are missing nothing is said.
    """
    sender = story.other(end)
    posts = {} if sender is None else _first_posts(sender)
    done = [(index, r) for index, r in sorted(end.messages.items()) if r.kind == "done"]
    holes = _holes(end)
    found = []
    for (before_index, before), (index, record) in pairwise(done):
        if any(before_index < hole <= index for hole in holes):
            continue
        start = max(before.t_ns, posts.get(record.number, before.t_ns))
        if record.t_ns > start:
            found.append(Gap(end, start, record.t_ns, record.number, record.number in posts))
    return sorted(found, key=lambda gap: gap.start_ns - gap.end_ns)


def _first_posts(sender: End) -> dict[int, int]:
    posts: dict[int, int] = {}
    for _, record in sorted(sender.messages.items()):
        if record.kind == "post":
            posts.setdefault(record.number, record.t_ns)
    return posts


def _holes(end: End) -> list[int]:
    """Indices before which records are missing: no dump was written before they were overwritten."""
    indices = sorted(end.messages)
    return [index for before, index in pairwise(indices) if index != before + 1]


def failovers(story: Story) -> list[Gap]:
    """The longest gap that a failover explains, of every receiving end that has one, longest first."""
    found = []
    for end in story.ends():
        ends = [one for one in (end, story.other(end)) if one is not None]
        if end.direction == "recv" and any(_troubled(one, r) for one in ends for r in one.events.values()):
            found += [gap for gap in gaps(story, end) if cause_of(story, gap) is not None][:1]
    return sorted(found, key=lambda gap: -gap.ms)


def longest(story: Story) -> list[Gap]:
    """The longest gap of every receiving end that has one, longest first."""
    per_end = [gaps(story, end)[:1] for end in story.ends() if end.direction == "recv"]
    return sorted((gap for found in per_end for gap in found), key=lambda gap: -gap.ms)


def cause_of(story: Story, gap: Gap) -> Cause | None:
    """The best explanation recorded: a NIC that lost its link, else a path judged dead, else the state's own cause."""
    ends = [end for end in (gap.end, story.other(gap.end)) if end is not None]
    window = range(gap.start_ns - BEFORE_NS, gap.end_ns + 1)
    frozen = [(r, end) for end in ends for r in end.events.values() if r.t_ns in window and _troubled(end, r)]
    if not frozen:
        return None
    nics = {nic for end in ends for nic in _lost(end, window)}
    for judge in (_link_lost, _path_dead):
        verdicts = [cause for end in ends for cause in judge(end.process, window, nics)]
        if verdicts:
            return min(verdicts, key=lambda cause: cause.t_ns)
    record, end = min(frozen, key=lambda item: item[0].t_ns)
    lost = sorted(nic for host, nic in _lost(end, window))
    return Cause(record.t_ns, end.process.label, ", ".join(lost), record.text, f"connection {end.state(record)}")


def _troubled(end: End, record: Record) -> bool:
    return record.kind == "state" and end.state(record) in ("frozen", "holding", "failed")


def _lost(end: End, window: range) -> set[tuple[str, str]]:
    """(process, NIC) of the lanes that this end gave up in the window."""
    lanes = end.lanes()
    down = [r.lane for r in end.events.values() if r.kind == "lane_down" and r.t_ns in window]
    return {(end.process.label, lanes[lane][0]) for lane in down if lane in lanes}


def _link_lost(process: Process, window: range, nics: set[tuple[str, str]]) -> list[Cause]:
    return [
        Cause(r.t_ns, process.label, process.nic(r.bytes >> 16), r.text, "link lost")
        for r in process.events.values()
        if r.kind == "nic" and r.code == 0 and r.t_ns in window and (process.label, process.nic(r.bytes >> 16)) in nics
    ]


def _path_dead(process: Process, window: range, nics: set[tuple[str, str]]) -> list[Cause]:
    states = process.header["path_states"]
    found = []
    for r in process.events.values():
        nic = process.nic(r.bytes >> 16)
        dead = r.kind == "path" and r.code < len(states) and states[r.code] == "dead"
        if dead and r.t_ns in window and (process.label, nic) in nics:
            what = f"path to NIC {r.bytes & 0xFFFF} of {process.text(r.epoch)} judged dead"
            found.append(Cause(r.t_ns, process.label, nic, r.text, what))
    return found
