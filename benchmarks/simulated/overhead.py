"""How much longer iterations take with NICs gone, and what a failure costs with one arm in terms of another's cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

from chaos.simulate.cluster.arms import Left, arm, rule
from chaos.simulate.training.iteration import Training
from chaos.simulate.training.statekey import Capacities

Spread = Literal["host", "hosts"]
PAPER_TRAINING, PAPER_SERVING, PAPER_ADAPCC, PAPER_DEJAVU = 0.01, 0.03, 12.18, 47.0
"""R2CC (arXiv 2512.25059), abstract: overheads below 1 % in training and 3 % in inference; against AdapCC, DejaVu."""


@dataclass(frozen=True, slots=True)
class Point:
    """`overhead`: share by which an iteration is longer; inf where the job cannot go on."""

    arm: str
    failed: int
    spread: Spread
    iteration_s: float
    overhead: float
    floored: bool
    """See Iteration.floored."""


def failed_nics(topology: Any, count: int, spread: Spread) -> tuple[tuple[int, Capacities], ...]:
    """`host`: all of one host. `hosts`: one each, hosts evenly spaced, rails in turn."""
    nics = topology.nics
    if spread == "host":
        return ((0, (0.0,) * count + (1.0,) * (nics - count)),) if count else ()
    step = max(1, topology.hosts // max(count, 1))
    rows = [(index * step % topology.hosts, index % nics) for index in range(count)]
    return tuple(sorted((host, tuple(0.0 if nic == gone else 1.0 for nic in range(nics))) for host, gone in rows))


def curve(training: Training, arms: Sequence[str], counts: Sequence[int], spread: Spread) -> list[Point]:
    """`counts` of one host may be all of its NICs."""
    return [_point(training, name, count, spread) for name in arms for count in counts]


def _point(training: Training, name: str, count: int, spread: Spread) -> Point:
    found = training.iteration(name, failed_nics(training.topology, count, spread))
    overhead = found.total_s / training.iteration("stock").total_s - 1
    return Point(name, count, spread, found.total_s, overhead, found.floored)


@dataclass(frozen=True, slots=True)
class Ratio:
    """What one NIC's failure costs: `lasting`, the overhead while it lasts; `incident`: all of it, over `duration_s`.

    The paper's 12.18 is a ratio of overheads: "reduces failure-induced overhead by up to 92 %" (the project's page) is
    1 - 1/12.18. Its formula is not in what we could read, so this definition is inferred."""

    other: str
    ours: str
    duration_s: float
    lasting: float
    incident: float


def ratio(training: Training, params: Any, other: str, ours: str, duration_s: float) -> Ratio:
    state = failed_nics(training.topology, 1, "host")
    cost = training.overhead(ours, state)
    lasting = training.overhead(other, state) / cost if cost > 0 else inf
    costs = [_incident_s(training, params, name, duration_s) for name in (other, ours)]
    return Ratio(other, ours, duration_s, lasting, costs[0] / costs[1])


def _incident_s(training: Training, params: Any, name: str, duration_s: float) -> float:
    """Time that a failure of that length costs: if the job dies of it, half a checkpoint interval and a restart."""
    applied = rule(arm(name), Left.NIC, params, training.iteration(name).total_s)
    if applied.fatal(duration_s):
        return float(params.restart_s.value + params.checkpoint_interval_s.value / 2)
    overhead = training.overhead(name, failed_nics(training.topology, 1, "host"))
    slower_s = (
        (duration_s - min(duration_s, applied.wait_s)) * overhead / (1 + overhead) if overhead < inf else duration_s
    )
    return applied.stall_s(duration_s) + slower_s + (applied.back_s if duration_s > applied.wait_s else 0.0)
