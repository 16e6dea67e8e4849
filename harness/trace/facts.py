"""What `r2cc trace --json` prints, and what its text is made of: plain data, checked by trace.schema.json."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from harness.trace.gaps import Gap, cause_of
from harness.trace.story import End, Story
from harness.trace.timeline import rows

Json = dict[str, Any]


def facts(story: Story, chosen: list[Gap], ends: list[End], margin_ms: float) -> Json:
    """Everything about `ends`, and the timelines of the gaps `chosen`."""
    return {
        "schema": 1,
        "exact_clock": story.exact_clock,
        "files": [str(path) for path in story.files],
        "processes": [_process(story, key) for key in story.processes],
        "connections": [connection(story, end) for end in ends],
        "gaps": [described(story, gap, margin_ms) for gap in chosen],
    }


def _process(story: Story, key: str) -> Json:
    process = story.processes[key]
    header = process.header
    about = {name: header[name] for name in ("host", "pid", "mode", "build_id", "nics")}
    return {"process": key, "name": process.label, "offset_ns": process.offset_ns, **about}


def connection(story: Story, end: End) -> Json:
    """One end: what went through while it was recorded."""
    finished = "done" if end.direction == "recv" else "released"
    through = [r for r in end.messages.values() if r.kind == finished]
    times = [r.t_ns for r in end.messages.values()]
    lanes = end.lanes()
    used = sorted({r.lane for r in end.messages.values() if r.kind == "post"})
    last_state = max((item for item in end.events.items() if item[1].kind == "state"), default=None)
    other = story.other(end)
    return {
        "name": end.name,
        "peer": other.process.label if other is not None else end.peer,
        "home_nic": end.home_nic,
        "messages": len(through),
        "bytes": sum(r.bytes for r in through),
        "recorded_ms": (max(times) - min(times)) / 1e6 if times else 0.0,
        "missed_records": (max(end.messages) + 1 - len(end.messages)) if end.messages else 0,
        "lanes": [{"lane": lane, "nic": lanes[lane][0] if lane in lanes else ""} for lane in used],
        "epochs": sorted({r.epoch for r in end.messages.values()}),
        "state": end.state(last_state[1]) if last_state is not None else "",
        "replayed": sum(r.bytes for r in end.events.values() if r.kind == "replay"),
    }


def described(story: Story, gap: Gap, margin_ms: float) -> Json:
    """A gap, why it was, and what happened from margin_ms before it to margin_ms after it."""
    cause = cause_of(story, gap)
    margin_ns = round(margin_ms * 1e6)
    found = rows(story, gap.end, gap.start_ns - margin_ns, gap.end_ns + margin_ns)
    return {
        "connection": gap.end.name,
        "start_ns": gap.start_ns,
        "end_ns": gap.end_ns,
        "gap_ms": gap.ms,
        "number": gap.number,
        "sender_known": gap.sender_known,
        "cause": None if cause is None else {**asdict(cause), "after_ms": (cause.t_ns - gap.start_ns) / 1e6},
        "timeline": [asdict(row) for row in found],
    }
