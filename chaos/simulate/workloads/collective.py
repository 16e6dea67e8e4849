"""Workload `collective`: one collective over all hosts, over and over, whatever is broken; or hit in its middle."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

from chaos.simulate.workloads.figures import COLLECTIVE as FIGURES
from chaos.simulate.workloads.scenario import Result, Scenario, Work, capacities
from chaos.simulate.workloads.sections import Collective as Section

__all__ = ["DRAWN", "FIGURES", "Section", "problems", "ready", "run"]
DRAWN = ("ratio", "busbw_GBps")
"""What a report draws if the file does not say."""


def problems(section: Section, topology: Any) -> Iterator[tuple[str, str]]:
    """(key, what) for everything that does not fit the topology."""
    if topology.hosts < 2:
        yield "kind", f"a collective needs 2 hosts, and the topology has {topology.hosts}"
    if section.ranks_per_node > topology.gpus:
        yield "ranks_per_node", f"the hosts have {topology.gpus} GPUs"


def ready(work: Work, scenario: Scenario) -> None:
    """Nothing that arms could share."""


def run(work: Work, arm: str, scenario: Scenario, shared: None) -> Result:
    """Means over the trace's time."""
    return _hit(work, arm, scenario) if work.workload.hit_at is not None else _over_time(work, arm, scenario)


def _over_time(work: Work, arm: str, scenario: Scenario) -> Result:
    section, whole_s = work.workload, 0.0
    time_us = healthy_us = bound_us = 0.0
    for interval in scenario.intervals:
        lasts_s = interval.end_s - interval.start_s
        found = work.solver.collective(
            section.op, section.bytes, capacities(work.topology, interval.state), arm,
            ranks_per_node=section.ranks_per_node, groups=section.groups, fabric=interval.fabric,
        )  # fmt: skip
        whole_s += lasts_s
        time_us += found.time_us * lasts_s
        healthy_us += found.healthy_us * lasts_s
        bound_us += found.bound_us * lasts_s
    if not isfinite(time_us):  # it stands still for a part of the time
        figures = {"healthy_us": healthy_us / whole_s, "bound_us": bound_us / whole_s if isfinite(bound_us) else None}
        return Result({**dict.fromkeys(("time_us", "ratio", "over_bound", "busbw_GBps")), **figures})
    return Result(_figures(section, work.topology.hosts, time_us / whole_s, healthy_us / whole_s, bound_us / whole_s))


def _figures(section: Section, hosts: int, time_us: float, healthy_us: float, bound_us: float) -> dict[str, float]:
    ranks = hosts * section.ranks_per_node
    factor = (2 if section.op == "allreduce" else 1) * (ranks - 1) / ranks
    return {
        "time_us": time_us,
        "healthy_us": healthy_us,
        "bound_us": bound_us,
        "ratio": time_us / healthy_us,
        "over_bound": time_us / bound_us,
        "busbw_GBps": section.bytes * factor / time_us / 1e3,
    }


def _hit(work: Work, arm: str, scenario: Scenario) -> Result:
    """The trace's first fault, in the middle of a collective of a cluster that was whole."""
    section, fault = work.workload, scenario.trace.faults[0]
    host, nic = int(fault.where[0]), int(fault.where[1])
    nodes = capacities(work.topology, ())
    lasts_us = fault.duration_s * 1e6
    how: dict[str, Any] = {"ranks_per_node": section.ranks_per_node, "groups": section.groups}
    found = work.solver.hit(
        section.op, section.bytes, nodes, arm, at_share=section.hit_at, host=host, nic=nic, factor=fault.factor,
        duration_us=lasts_us, **how,
    )  # fmt: skip
    values: dict[str, float | None] = {
        "completed": float(found.completed),
        "healthy_us": found.healthy_us,
        "stall_us": found.stall_us,
        "replay_bytes": float(found.replay_bytes),
    }
    if found.completed:
        values |= {"time_us": found.time_us, "ratio": found.time_us / found.healthy_us}
    return Result(values)
