"""What `r2cc trace --json` prints, and what its text is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.schemas.form import Amount, Count, form, growing
from harness.trace.gaps import Cause, Gap, cause_of
from harness.trace.story import End, Story
from harness.trace.timeline import Row, rows


@growing
@dataclass(frozen=True)
class ShownProcess:
    process: str
    name: str
    offset_ns: int
    host: str
    pid: int
    mode: int
    build_id: str
    nics: Sequence[str]


@growing
@dataclass(frozen=True)
class ShownLane:
    lane: int
    nic: str


@growing
@dataclass(frozen=True)
class ShownConnection:
    """One end: what went through while it was recorded."""

    name: str
    peer: str
    home_nic: str
    messages: Count
    bytes: Count
    recorded_ms: Amount
    missed_records: Count
    lanes: Sequence[ShownLane]
    epochs: Sequence[int]
    state: str
    replayed: Count


@growing
@dataclass(frozen=True)
class ShownCause(Cause):
    after_ms: float


@growing
@dataclass(frozen=True)
class ShownGap:
    """A gap, why it was, and what happened around it."""

    connection: str
    start_ns: int
    end_ns: int
    gap_ms: Amount
    number: int
    sender_known: bool
    cause: ShownCause | None
    timeline: Sequence[Row]


@form("trace", "What `r2cc trace --json` prints (docs/internals/trace.md)")
@dataclass(frozen=True)
class Trace:
    """What was asked of dumps."""

    exact_clock: bool
    files: Sequence[str]
    processes: Sequence[ShownProcess]
    connections: Sequence[ShownConnection]
    gaps: Sequence[ShownGap]


def facts(story: Story, chosen: list[Gap], ends: list[End], margin_ms: float) -> Trace:
    """Everything about `ends`, and the timelines of the gaps `chosen`."""
    return Trace(
        exact_clock=story.exact_clock,
        files=[str(path) for path in story.files],
        processes=[_process(story, key) for key in story.processes],
        connections=[connection(story, end) for end in ends],
        gaps=[described(story, gap, margin_ms) for gap in chosen],
    )


def _process(story: Story, key: str) -> ShownProcess:
    process = story.processes[key]
    about = {name: process.header[name] for name in ("host", "pid", "mode", "build_id", "nics")}
    return ShownProcess(process=key, name=process.label, offset_ns=process.offset_ns, **about)


def connection(story: Story, end: End) -> ShownConnection:
    finished = "done" if end.direction == "recv" else "released"
    through = [r for r in end.messages.values() if r.kind == finished]
    times = [r.t_ns for r in end.messages.values()]
    lanes = end.lanes()
    used = sorted({r.lane for r in end.messages.values() if r.kind == "post"})
    last_state = max((item for item in end.events.items() if item[1].kind == "state"), default=None)
    other = story.other(end)
    return ShownConnection(
        name=end.name,
        peer=other.process.label if other is not None else end.peer,
        home_nic=end.home_nic,
        messages=len(through),
        bytes=sum(r.bytes for r in through),
        recorded_ms=(max(times) - min(times)) / 1e6 if times else 0.0,
        missed_records=(max(end.messages) + 1 - len(end.messages)) if end.messages else 0,
        lanes=[ShownLane(lane, lanes[lane][0] if lane in lanes else "") for lane in used],
        epochs=sorted({r.epoch for r in end.messages.values()}),
        state=end.state(last_state[1]) if last_state is not None else "",
        replayed=sum(r.bytes for r in end.events.values() if r.kind == "replay"),
    )


def described(story: Story, gap: Gap, margin_ms: float) -> ShownGap:
    """With what happened from margin_ms before it to margin_ms after it."""
    cause = cause_of(story, gap)
    margin_ns = round(margin_ms * 1e6)
    return ShownGap(
        connection=gap.end.name,
        start_ns=gap.start_ns,
        end_ns=gap.end_ns,
        gap_ms=gap.ms,
        number=gap.number,
        sender_known=gap.sender_known,
        cause=None if cause is None else ShownCause(**vars(cause), after_ms=(cause.t_ns - gap.start_ns) / 1e6),
        timeline=rows(story, gap.end, gap.start_ns - margin_ns, gap.end_ns + margin_ns),
    )
