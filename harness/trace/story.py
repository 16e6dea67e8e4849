"""Dumps of several processes and moments put together: what each end of each connection did, on one clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.trace.dump import Connection, Dump, Record, Ring

Indexed = dict[int, Record]
"""Records by how many were written before them in their ring: dumps of one process overlap."""


@dataclass
class End:
    """One end of a connection. `nic_of` are the lanes' NICs as (ours, index of the peer's)."""

    process: Process
    id: int
    direction: str
    peer_process: str
    peer: str
    home_nic: str
    messages: Indexed = field(default_factory=dict)
    events: Indexed = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Short, and unique within what was read: connections are numbered by their sender."""
        return f"{self.process.label}:{self.id}:{self.direction}"

    def lanes(self) -> dict[int, tuple[str, int]]:
        """Lanes known by their making; those made before the oldest event are missing."""
        made = (record for _, record in sorted(self.events.items()) if record.kind == "lane_up")
        return {r.lane: (self.process.nic(r.bytes >> 16), r.bytes & 0xFFFF) for r in made}

    def state(self, record: Record) -> str:
        """What a state record's code means."""
        states = self.process.header["states"]
        return str(states[record.code]) if record.code < len(states) else f"state {record.code}"


@dataclass
class Process:
    """One process; `offset_ns` is what must be added to its times to get the common clock's."""

    header: Mapping[str, Any]
    offset_ns: int = 0
    label: str = ""
    events: Indexed = field(default_factory=dict)
    ends: dict[tuple[int, str, str], End] = field(default_factory=dict)

    def nic(self, index: int) -> str:
        """A NIC's name, or its number."""
        nics = self.header["nics"]
        return str(nics[index]) if index < len(nics) else f"nic{index}"

    def text(self, index: int) -> str:
        texts = self.header["texts"]
        return str(texts[index]) if index < len(texts) else ""


@dataclass
class Story:
    """Everything that was read. `exact_clock`: all processes ran on one kernel, so that times compare exactly."""

    processes: dict[str, Process]
    exact_clock: bool
    files: list[Path]

    def ends(self) -> list[End]:
        return [end for process in self.processes.values() for end in process.ends.values()]

    def other(self, end: End) -> End | None:
        """The same connection's other end, if its process's dump was read."""
        process = self.processes.get(end.peer_process)
        direction = "recv" if end.direction == "send" else "send"
        return None if process is None else process.ends.get((end.id, direction, end.process.header["process"]))


def tell(dumps: Iterable[Dump]) -> Story:
    """Merges dumps. Times become nanoseconds of one clock: the first process's boot, others by their wall clocks."""
    story = Story({}, True, [])
    # The newest header of a process has its longest list of texts; indices never change.
    for dump in sorted(dumps, key=lambda d: d.header["t_ns"]):
        story.files.append(dump.path)
        key = dump.header["process"]
        process = story.processes.setdefault(key, Process(dump.header))
        process.header = dump.header
        _add(process.events, dump.process_events)
        for connection in dump.connections:
            _add_connection(process, connection)
    _align(story)
    _label(story)
    return story


def _add(into: Indexed, ring: Ring) -> None:
    into.update(enumerate(ring.records, ring.first))


def _add_connection(process: Process, connection: Connection) -> None:
    about = connection.about
    key = (about["id"], about["direction"], about["peer_process"])
    end = process.ends.get(key)
    if end is None:
        end = process.ends[key] = End(process, *key, peer=about["peer"], home_nic=about["home_nic"])
    end.peer, end.home_nic = about["peer"] or end.peer, about["home_nic"] or end.home_nic
    _add(end.messages, connection.messages)
    _add(end.events, connection.events)


def _align(story: Story) -> None:
    """One kernel has one monotonic clock; different hosts are compared by their wall clocks, as good as those are."""
    processes = list(story.processes.values())
    if not processes:
        return
    base = processes[0].header
    for process in processes[1:]:
        header = process.header
        if header["boot"] != base["boot"] or not header["boot"]:
            story.exact_clock = False
            process.offset_ns = (header["wall_ns"] - header["t_ns"]) - (base["wall_ns"] - base["t_ns"])
            _shift(process)


def _shift(process: Process) -> None:
    rings = [process.events, *(ring for end in process.ends.values() for ring in (end.messages, end.events))]
    for ring in rings:
        for index, record in ring.items():
            ring[index] = record._replace(t_ns=record.t_ns + process.offset_ns)


def _label(story: Story) -> None:
    """The host's name; with the process's number where a host has several."""
    hosts = [process.header["host"] for process in story.processes.values()]
    for process in story.processes.values():
        host = process.header["host"]
        process.label = host if hosts.count(host) == 1 else f"{host}/{process.header['pid']}"
