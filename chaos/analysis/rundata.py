"""One repeat of one arm, read out of its journal lines into the few shapes that figures are computed from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

from harness.workloads.reading.steps import FOREIGN, OP

Line = dict[str, Any]
Nic = tuple[str, str]
"""Host and name of a NIC."""
Key = tuple[int, str]
"""A connection as its receiver counts it: rank and connection id (as text)."""


@dataclass(frozen=True)
class Connection:
    """The receiving end of one ordered stream, with the NICs that carry it at the start."""

    key: Key
    receiver: Nic
    sender: Nic


@dataclass(frozen=True)
class Span:
    """One iteration on one rank, or a gap between two deliveries, in monotonic nanoseconds."""

    start_ns: int
    end_ns: int

    @property
    def ms(self) -> float:
        return (self.end_ns - self.start_ns) / 1e6

    def overlaps(self, other: Span) -> bool:
        return self.start_ns <= other.end_ns and other.start_ns <= self.end_ns


@dataclass(frozen=True)
class FaultTimes:
    """What the controller wrote about one fault; several onsets when it flaps."""

    id: str
    kind: str
    host: str
    nic: str
    onsets: tuple[Span, ...]
    """From just before the command was issued to the probe that confirmed it: the change lies inside."""
    reverts: tuple[int, ...]
    """When each undo was issued."""
    struck_ns: int | None
    """When the first injecting command had returned: the NIC was cut by then, most likely just before."""
    missed: bool
    nics: frozenset[Nic] = frozenset()
    """Everything it breaks; just (host, nic) for a single one, empty for what breaks no NIC."""
    lost: float = 1.0
    """The share of each NIC that is gone: all of it, or what its rate was lowered by."""

    @property
    def onset_ns(self) -> int | None:
        return self.onsets[0].start_ns if self.onsets else None

    @property
    def reverted_ns(self) -> int | None:
        return self.reverts[-1] if self.reverts else None


WITHOUT = 3
"""Iterations that the others end after a rank has ended, if they go on without it."""


@dataclass
class RunData:
    """Every line of one run, by kind."""

    lines: list[Line]
    by_event: dict[str, list[Line]] = field(default_factory=dict)
    iterations: dict[int, dict[int, Span]] = field(default_factory=dict)
    """Index (measured ones only) -> rank -> when."""
    busbw_GBps: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Index -> size in bytes and bus bandwidth, where the program says so itself."""
    deliveries: dict[Key, dict[int, list[Span]]] = field(default_factory=dict)
    """Receiving connection -> iteration -> gaps, in order."""
    connections: list[Connection] = field(default_factory=list)
    host_of: dict[int, str] = field(default_factory=dict)
    faults: list[FaultTimes] = field(default_factory=list)

    @property
    def start(self) -> Line | None:
        """The first `bench_start`; None when no rank got that far."""
        return next(iter(self.by_event.get("bench_start", [])), None)

    @property
    def ranks(self) -> int:
        """Whose iterations there are: of a program that is not ours, those ranks that say so."""
        if self.start is None:
            return 0
        return len(self.host_of) if self.start["op"] in FOREIGN else int(self.start["ranks"])

    @cached_property
    def whole(self) -> dict[int, Span]:
        """Iterations that every rank finished which the job still had, from the first start to the last end. Asked for
        by every figure, and a long run has many: they are counted once."""
        left = self._left
        return {
            index: Span(min(s.start_ns for s in spans.values()), max(s.end_ns for s in spans.values()))
            for index, spans in sorted(self.iterations.items())
            if len(spans) + sum(last < index for rank, last in left.items() if rank not in spans) == self.ranks
        }

    @property
    def _left(self) -> dict[int, int]:
        """Ranks that a program went on without, as after ncclCommShrink, and the last iteration of each: the next one
        of the others ended after it, and some more after the rank itself had ended. Ranks that only count otherwise,
        or are behind, are none."""
        if self.start is None or self.start["op"] != OP:
            return {}
        last = {rank: index for index, spans in sorted(self.iterations.items()) for rank in spans}
        ended = {line["rank"]: int(line["t_ns"]) for line in self.by_event.get("bench_end", [])}
        out = {}
        for rank, index in last.items():
            later = [max(s.end_ns for s in spans.values()) for i, spans in self.iterations.items() if i > index]
            own = self.iterations[index][rank].end_ns
            if rank in ended and min(later, default=0) > own and sum(end > ended[rank] for end in later) >= WITHOUT:
                out[rank] = index
        return out

    @cached_property
    def durations_ms(self) -> dict[int, float]:
        """How long each whole iteration took: the slowest rank's own time, so that clocks are never compared."""
        return {index: max(span.ms for span in self.iterations[index].values()) for index in self.whole}


def read_run(lines: Iterable[Line]) -> RunData:
    """Sorts the lines of one (arm, run) by kind; tolerates a journal that stops anywhere."""
    data = RunData(list(lines))
    by_event: dict[str, list[Line]] = defaultdict(list)
    for line in data.lines:
        by_event[line["event"]].append(line)
    by_event["bench_start"] = _by_nic(by_event["bench_start"], by_event["run_start"])
    data.by_event = dict(by_event)
    data.host_of = {line["rank"]: line["host"] for line in by_event["bench_start"]}
    for line in by_event["iteration"]:
        if line["index"] >= 0:
            data.iterations.setdefault(line["index"], {})[line["rank"]] = Span(line["start_ns"], line["end_ns"])
            if "busbw_GBps" in line:
                data.busbw_GBps[line["index"]] = int(line["bytes"]), float(line["busbw_GBps"])
    data.deliveries = _deliveries(by_event["delivery"])
    data.connections = _connections(by_event["bench_start"])
    data.faults = _faults(by_event["fault"])
    return data


def _by_nic(starts: Sequence[Line], run_starts: Sequence[Line]) -> list[Line]:
    """`bench_start` with NICs where the transport named their RDMA devices: all other lines name NICs.

    A merged device, `rxe0+rxe1`, becomes `eth0+eth1`.
    """
    known = {
        (host, str(about["device"])): nic
        for line in run_starts
        for host, nics in line.get("nics", {}).items()
        for nic, about in nics.items()
        if "device" in about
    }

    def nic_of(host: str, name: str) -> str:
        return "+".join(known.get((host, part), part) for part in name.split("+"))

    return [
        {
            **line,
            "nics": [nic_of(line["host"], name) for name in line["nics"]],
            "connections": [{**end, "nic": nic_of(line["host"], end["nic"])} for end in line["connections"]],
        }
        if known
        else line
        for line in starts
    ]


def _deliveries(lines: Sequence[Line]) -> dict[Key, dict[int, list[Span]]]:
    """Gaps as spans; lists that were split over several lines are joined in the order of `part` first."""
    parts: dict[tuple[Key, int], list[Line]] = defaultdict(list)
    for line in lines:
        if line["index"] >= 0:
            parts[(line["rank"], str(line["connection"])), line["index"]].append(line)
    found: dict[Key, dict[int, list[Span]]] = defaultdict(dict)
    for (key, index), pieces in parts.items():
        pieces.sort(key=lambda piece: piece.get("part", 0))
        gaps_us = [gap for piece in pieces for gap in piece["gaps_us"]]
        edges = [pieces[0]["start_ns"] + round(us * 1000) for us in accumulate(gaps_us, initial=0.0)]
        found[key][index] = [Span(a, b) for a, b in pairwise(edges)]
    return dict(found)


def _connections(starts: Sequence[Line]) -> list[Connection]:
    """Pairs each receiving end with the sending end: same two ranks and channel, in the order they are listed."""
    host_of = {line["rank"]: line["host"] for line in starts}
    sending: dict[tuple[int, int, int], list[str]] = defaultdict(list)
    for line in starts:
        for end in line["connections"]:
            if end["direction"] == "send":
                sending[line["rank"], end["peer"], end["channel"]].append(end["nic"])
    found = []
    for line in starts:
        for end in line["connections"]:
            if end["direction"] == "recv":
                matching = sending[end["peer"], line["rank"], end["channel"]]
                sender = (host_of.get(end["peer"], "?"), matching.pop(0) if matching else end["nic"])
                found.append(Connection((line["rank"], str(end["id"])), (line["host"], end["nic"]), sender))
    return found


def _faults(lines: Sequence[Line]) -> list[FaultTimes]:
    """Groups fault lines by id; an injection that was never confirmed lasts until the command returned."""
    groups: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        groups[line["id"]].append(line)
    return [_fault(group) for group in groups.values()]


def _issued_ns(line: Line) -> int:
    """When the command of a fault line was issued; when it had returned, in journals that say no more."""
    return int(line["before_ns"] if "before_ns" in line else line["t_ns"])


def _fault(group: Sequence[Line]) -> FaultTimes:
    first = group[0]
    active = {int(line.get("cycle", 0)): int(line["t_ns"]) for line in group if line["phase"] == "active"}
    onsets = tuple(
        Span(_issued_ns(line), active.get(line.get("cycle", 0), int(line["t_ns"])))
        for line in group
        if line["phase"] == "injected"
    )
    reverts = tuple(_issued_ns(line) for line in group if line["phase"] == "reverted")
    struck = [
        int(line["after_ns"] if "after_ns" in line else line["t_ns"]) for line in group if line["phase"] == "injected"
    ]
    struck_ns = struck[0] if struck else None
    missed = any(line["phase"] == "missed" for line in group)
    several = [(host, nic) for host, nic in first.get("nics", [])]
    nics = frozenset(several or ([(first["host"], first["nic"])] if first["nic"] else []))
    about = (first["id"], first["kind"], first["host"], first["nic"])
    return FaultTimes(*about, onsets, reverts, struck_ns, missed, nics, 1.0 - first.get("fraction", 0.0))
