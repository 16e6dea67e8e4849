"""Stand-ins for what jobs are simulated with: a solver of formulas, and faults that a test writes down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from chaos.simulate.faults.timeline import Interval
from chaos.simulate.faults.trace import DAY_S, Fault, Kind, What
from chaos.simulate.params import Params, load

__all__ = ["DAY_S", "Fault", "Interval", "Machines", "Solver", "fault", "intervals", "params"]


def params(**changed: float) -> Params:
    """The shipped ones, with rounder stalls."""
    return load({"exclusion_replan_s": 2, "stall_ms": 100, "healthy_overhead": 0, **changed})


@dataclass(frozen=True)
class Machines:
    hosts: int
    gpus: int = 8
    nics: int = 8
    ports: int = 1
    rate_gbit: float = 400.0
    nvlink_GBps: float = 450.0
    name: str = "double"


@dataclass(frozen=True)
class Took:
    time_us: float


@dataclass(eq=False)
class Solver:
    """The ring's formula over what the slowest host has left, by arm; `calls` counts what was really asked."""

    topology: Machines
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def collective(
        self,
        op: str,
        size: int,
        nodes: Sequence[tuple[float, ...]],
        arm: str,
        *,
        ranks_per_node: int = 1,
        groups: int = 1,
    ) -> Took:
        self.calls.append((op, size, tuple(nodes), arm, ranks_per_node, groups))
        ranks = len(nodes) * ranks_per_node
        rate = self.topology.nics * self.topology.rate_gbit / 8 * 1e3
        healthy_us = (2 if op == "allreduce" else 1) * (ranks - 1) / ranks * size * groups / rate
        lost = 1 / min(sum(left) / len(left) for left in nodes) - 1
        slower = {"balance": lost, "allreduce": lost / 5, "optcc": lost / 6}.get(arm, 1.0 if lost else 0.0)
        return Took(healthy_us * (1 + slower))


def fault(
    t_s: float,
    duration_s: float,
    *,
    kind: Kind = "cut",
    what: What = "nic",
    where: tuple[int, ...] = (0, 0),
    factor: float = 0.0,
    process: str = "nic_tor",
    silent: bool = False,
) -> Fault:
    return Fault(t_s, duration_s, kind, what, where, factor, process, silent)


def intervals(faults: Sequence[Fault], topology: Machines, days: float = 1.0) -> list[Interval]:
    """As chaos.simulate.faults.timeline makes them, for faults of NICs and hosts."""
    edges = {0.0, days * DAY_S} | {fault.t_s for fault in faults} | {fault.t_s + fault.duration_s for fault in faults}
    times = sorted(edge for edge in edges if edge <= days * DAY_S)
    return [
        Interval(start, end, _state(faults, topology, start), _onset(faults, start)) for start, end in pairwise(times)
    ]


def _onset(faults: Sequence[Fault], start_s: float) -> tuple[Fault, ...]:
    return tuple(fault for fault in faults if fault.t_s == start_s)


def _state(faults: Sequence[Fault], topology: Machines, at_s: float) -> tuple[tuple[int, tuple[float, ...]], ...]:
    left: dict[int, list[float]] = {}
    for fault in faults:
        if fault.t_s <= at_s < fault.t_s + fault.duration_s:
            caps = left.setdefault(fault.where[0], [1.0] * topology.nics)
            hit = range(topology.nics) if fault.what == "host" else (fault.where[1],)
            for nic in hit:
                caps[nic] = min(caps[nic], fault.factor)
    return tuple((host, tuple(caps)) for host, caps in sorted(left.items()))
