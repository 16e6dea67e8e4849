"""StepFun's fault trace of 400 GPU servers over 348 days (InfiniteHBD, SIGCOMM'25).

Format: README.md of github.com/stepfun-ai/InfiniteHBD-Trace, "Trace Description": a JSON array of events {node_id,
event_time (days), event_type (fault_start or fault_end), fault_type {Level, Class, Desc}}, by time. It does not say
which NIC of a server a fault was of, nor how slow a slow one was: NICs are drawn, and slow ones have half.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from chaos.simulate.cluster.topology import Topology
from chaos.simulate.faults.trace import DAY_S, Fault, Trace, listed
from harness.errors import InputErrors

SERVERS = 400
SLOW = 0.5
CUT_PORT = {"Link Down", "Y-cables Taken offline", "Remote Optical Module Failure"}
CUT_NIC = {"NIC Lost", "Rnic Gid Error"}
SLOW_NIC = {"NIC Link Speed low", "NIC PCI link Width low"}
NETWORK_CLASSES = {"Parameter Plane Cable", "NIC", "Change"}
LEAST_S = 4.32
"""Half of the last digit of `event_time`, four behind the point: what ends in the same instant lasted so long."""

Event = tuple[str, float, bool, tuple[str, str]]


def parse(text: str, file: str, topology: Topology, *, seed: int = 0, everything: bool = False) -> Trace:
    """Servers are dealt to hosts at random: a smaller cluster has its share of faults, a larger one hosts without."""
    events = _events(text, file)
    nodes = list(dict.fromkeys(node for node, *_ in events))
    random = np.random.default_rng(seed)
    servers = random.permutation(max(SERVERS, len(nodes))).tolist()
    host_of = {node: servers[number] for number, node in enumerate(nodes)}
    days = max((time for _, time, *_ in events), default=0.0) or 1.0
    faults: list[Fault] = []
    for node, start, end, kind in _spans(events, days):
        # Drawn even for what is left out, so that leaving out changes nothing else.
        place = (host_of[node], int(random.integers(topology.nics)), int(random.integers(topology.ports)))
        when = (start * DAY_S, max((end - start) * DAY_S, LEAST_S))
        if fault := _fault(place, when, kind, everything):
            faults.append(fault)
    here = [fault for fault in faults if fault.where[0] < topology.hosts]
    return listed(here, days, topology.name)


def _events(text: str, file: str) -> list[Event]:
    errors: list[str] = []
    found: list[Event] = []
    for line, value in _items(text, file, errors):
        problem = _problem(value)
        if problem:
            errors.append(f"{file}:{line}: {problem}")
            continue
        kind = value["fault_type"]
        begins = value["event_type"] == "fault_start"
        found.append((value["node_id"], float(value["event_time"]), begins, (kind["Class"], kind["Desc"])))
    if errors:
        raise InputErrors(errors)
    return sorted(found, key=lambda event: event[1])


def _items(text: str, file: str, errors: list[str]) -> Iterator[tuple[int, Any]]:
    """The array's items, each with its line; what is no JSON ends it."""
    decoder = json.JSONDecoder()
    place = _skip(text, 0)
    if text[place : place + 1] != "[":
        errors.append(f"{file}:1: a JSON array of events is needed")
        return
    place = _skip(text, place + 1)
    while text[place : place + 1] not in ("]", ""):
        line = text.count("\n", 0, place) + 1
        try:
            value, place = decoder.raw_decode(text, place)
        except ValueError as error:
            errors.append(f"{file}:{line}: not JSON: {error}")
            return
        yield line, value
        place = _skip(text, place)
    if not text[place:]:
        errors.append(f"{file}:{text.count(chr(10)) + 1}: the array does not end: the file is not whole")


def _skip(text: str, place: int) -> int:
    while place < len(text) and text[place] in " \t\r\n,":
        place += 1
    return place


def _problem(value: Any) -> str:
    if not isinstance(value, dict):
        return "an event is an object"
    kind = value.get("fault_type")
    time: Any = value.get("event_time")
    if not isinstance(value.get("node_id"), str):
        return "node_id is missing"
    if type(time) not in (int, float) or not math.isfinite(time) or time < 0:
        return f"event_time: days from 0 on, not {time!r}"
    if value.get("event_type") not in ("fault_start", "fault_end"):
        return f"event_type: fault_start or fault_end, not {value.get('event_type')!r}"
    if not isinstance(kind, dict) or not all(isinstance(kind.get(key), str) for key in ("Class", "Desc")):
        return "fault_type: an object with Class and Desc"
    return ""


def _spans(events: list[Event], days: float) -> Iterator[tuple[str, float, float, tuple[str, str]]]:
    """Each start with the next end of the same kind on its node. Without an end: until the last event; without a
    start: from the first day on."""
    begun: dict[tuple[str, tuple[str, str]], list[float]] = {}
    for node, time, begins, kind in events:
        key = (node, kind)
        if begins:
            begun.setdefault(key, []).append(time)
        else:
            starts = begun.get(key, [])
            yield node, starts.pop(0) if starts else 0.0, time, kind
    for (node, kind), starts in begun.items():
        yield from ((node, start, days, kind) for start in starts)


def _fault(
    place: tuple[int, int, int], when: tuple[float, float], kind: tuple[str, str], everything: bool
) -> Fault | None:
    name = f"{kind[0]}: {kind[1]}"
    if kind[0] in NETWORK_CLASSES:
        if kind[1] in CUT_PORT:
            return Fault(*when, "cut", "port", place, 0.0, name)
        if kind[1] in CUT_NIC:
            return Fault(*when, "cut", "nic", place[:2], 0.0, name)
        if kind[1] in SLOW_NIC:
            return Fault(*when, "degraded", "nic", place[:2], SLOW, name)
    return Fault(*when, "cut", "host", place[:1], 0.0, name) if everything else None
