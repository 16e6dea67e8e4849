"""What a fault does to an instance with each arm: the arms' rules, and what it takes to be up again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from chaos.simulate.cluster.arms import Arm, Left, rule
from chaos.simulate.serving.service import GB, Service

Capacities = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Blow:
    """`stall`: nothing moves for `stall_s`. `restart`: after `stall_s` the instance dies. `restore`: after it, a worker
    starts anew and gets its state back. `leave`: after it the instance is out until the fault ends, and `back_s`."""

    what: Literal["nothing", "stall", "restart", "restore", "leave"]
    stall_s: float = 0.0
    back_s: float = 0.0


def left_of(fault: Any, left: Capacities) -> Left:
    """What a host has after a fault, in the arms' words."""
    if fault.factor > 0 or (0.0 not in left and fault.what != "port"):
        return Left.SLOWER
    if not any(left):
        return Left.NOTHING
    return Left.NIC if 0.0 in left else Left.PORT


def blow(of: Arm, service: Service, params: Any, lefts: Sequence[Left], fault: Any, *, alone: bool) -> Blow:
    """`lefts`: of the instance's hosts that were hit. `alone`: no other instance can take its requests."""
    if not lefts or not service.on_nics:
        return Blow("nothing")
    order = list(Left)
    worst = max(lefts, key=order.index)
    lasts_s = float(fault.duration_s)
    if worst is Left.SLOWER:
        return Blow("nothing")
    applied = rule(of, worst, params, silent=fault.silent)
    if applied.fatal(lasts_s):
        return Blow("restore" if of.name == "kv_replication" else "restart", applied.wait_s)
    if of.excludes and worst is Left.NIC and lasts_s > applied.wait_s:
        wait_s, replan_s = applied.wait_s, applied.back_s
        return Blow("restart", wait_s) if alone else Blow("leave", wait_s, replan_s)
    return Blow("stall", applied.stall_s(lasts_s))


def restart_s(service: Service, params: Any) -> float:
    """A whole instance: it is missed, starts, and loads the weights from each host's own disks."""
    hosts = max(1, service.hosts_each)
    start_s = params.worker_detect_s.value + params.worker_start_s.value
    return float(start_s + service.llm.weight_bytes / hosts / (params.weight_load_GBps.value * GB))


def restore_s(service: Service, params: Any, tokens: float, rate: float) -> float:
    """One host's workers: missed, start, their part of the weights, and of `tokens` tokens' cache from the peer."""
    hosts = max(1, service.hosts_each)
    cache_s = service.llm.kv_bytes * tokens / hosts / rate
    return restart_s(service, params) + float(cache_s)
