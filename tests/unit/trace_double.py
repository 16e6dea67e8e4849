"""Dumps made to order: the format written by hand, independently of the C++ writer (docs/internals/trace.md)."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import Any

KINDS = {"1": "post", "2": "done", "3": "released", "16": "state", "17": "lane_up", "18": "lane_down", "19": "path",
         "20": "nic", "21": "freeze", "22": "fenced", "23": "switch", "24": "switched", "25": "replay"}  # fmt: skip
NUMBER = {name: int(number) for number, name in KINDS.items()}
STATES = ["connecting", "active", "frozen", "exchanging", "holding", "closed", "failed"]
Entry = tuple[str, int, dict[str, int]]
"""kind, t_ns, other fields."""


@dataclass
class Made:
    """A dump to be; `rings` are (first, entries)."""

    process: str = "00000000000000aa"
    host: str = "h0"
    header: dict[str, Any] = field(default_factory=dict)
    texts: list[str] = field(default_factory=lambda: [""])
    process_events: list[Entry] = field(default_factory=list)
    connections: list[dict[str, Any]] = field(default_factory=list)

    def connection(
        self,
        number: int,
        direction: str,
        peer: str,
        messages: list[Entry],
        *,
        events: list[Entry] | None = None,
        first: int = 0,
    ) -> None:
        self.connections.append({"id": number, "direction": direction, "peer_process": peer, "peer": "p",
                                 "home_nic": "eth0", "messages": (first, messages),
                                 "events": (0, events or [])})  # fmt: skip

    def text(self, words: str) -> int:
        self.texts.append(words)
        return len(self.texts) - 1

    def bytes(self) -> bytes:
        rings: list[Entry] = []

        def ring(first: int, entries: list[Entry]) -> dict[str, int]:
            at = len(rings)
            rings.extend(entries)
            return {"at": at, "count": len(entries), "first": first}

        process_events = ring(0, self.process_events)
        connections = [
            {**one, "messages": ring(*one["messages"]), "events": ring(*one["events"])} for one in self.connections
        ]
        header = {
            "schema": 1, "reason": "test", "host": self.host, "process": self.process, "boot": "b", "build_id": "x",
            "pid": 1, "mode": 1, "wall_ns": 10**18, "t_ns": 10**9, "record_bytes": 32, "kinds": KINDS, "states": STATES,
            "path_states": ["up", "suspect", "dead", "probation"], "nics": ["eth0", "eth1"], "texts": self.texts,
            "process_events": process_events, "connections": connections, **self.header,
        }  # fmt: skip
        return pack(header, [record(*entry) for entry in rings])


def record(kind: str, t_ns: int, other: dict[str, int]) -> bytes:
    get = other.get
    return struct.pack("<QQIIIBBH", t_ns, get("number", 0), get("bytes", 0), get("lane", 0), get("epoch", 1),
                       NUMBER[kind], get("code", 0), get("text", 0))  # fmt: skip


def pack(header: dict[str, Any], records: list[bytes]) -> bytes:
    text = json.dumps(header).encode()
    body = b"".join(records)
    return b"R2TRACE\n" + struct.pack("<IIQ", 1, len(text), 24 + len(text) + len(body)) + text + body
