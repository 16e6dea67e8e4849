"""What each arm does when a NIC, link or switch fails, while it lasts, and at its return: as data, with sources.

A fault is judged by what it leaves a host (`Left`), not by its cause: the days-long job, the coverage table and whoever
simulates something else apply the same rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Any, Literal

from harness.errors import UsageError

Loss = Literal["restart", "exclude", "failover", "migrate"]
NOTICEABLE_S = 1.0
"""A stall beyond this, or a loss of GPUs, makes an outcome `degraded`. Chosen: an order above our own stalls."""


class Left(Enum):
    """What a fault leaves a host that it hits."""

    SLOWER = "slower"  # every path is there, with less
    PORT = "port"  # a NIC lost a port and has another
    NIC = "nic"  # a NIC is gone and the host has others
    NOTHING = "nothing"  # the host has no NIC left


@dataclass(frozen=True, slots=True)
class Rule:
    """An outage of up to `wait_s` is sat out; a longer one costs `wait_s` and `extra_s`, beyond `fatal_after_s` all.

    `back_s`: once, when what was lost for longer than `wait_s` is back."""

    wait_s: float = 0.0
    extra_s: float = 0.0
    fatal_after_s: float = inf
    back_s: float = 0.0

    def fatal(self, duration_s: float) -> bool:
        return duration_s > self.fatal_after_s

    def stall_s(self, duration_s: float) -> float:
        return min(duration_s, self.wait_s) + (self.extra_s if duration_s > self.wait_s else 0.0)


@dataclass(frozen=True, slots=True)
class Arm:
    """`nic` and `port`: what is done when one is gone. `solver`: how collectives run while something is degraded.

    `excludes`: GPUs at home on a NIC that is gone leave the job."""

    name: str
    title: str
    nic: Loss
    port: Loss
    solver: str
    source: str
    excludes: bool = False


_OURS = "R2CC (arXiv 2512.25059): connections migrate; the stall is the one measured in our lab"
ARMS: Mapping[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm(
            "stock",
            "stock NCCL, restart",
            "restart",
            "restart",
            "stock",
            "NCCL 2.29.7; a port down for over 7 s ends a run",
        ),
        Arm(
            "upstream",
            "NCCL's own port failover",
            "restart",
            "failover",
            "upstream",
            "NCCL_IB_RESILIENCY_PORT_FAILOVER of NCCL 2.29.7: only inside a merged NIC, one backup, no balance",
        ),
        Arm(
            "exclusion",
            "exclusion between collectives (AdapCC-like)",
            "exclude",
            "exclude",
            "balance",
            "AdapCC (ICDCS'24): failed workers are left out; what is in flight is lost; slow links are balanced",
            excludes=True,
        ),
        Arm(
            "kv_replication",
            "KV replication (DejaVu-like)",
            "restart",
            "restart",
            "stock",
            "DejaVu (ICML'24): the KV cache is replicated, the worker restarts; training gets stock NCCL",
        ),
        Arm(
            "migrate",
            "R2CC, migration",
            "migrate",
            "migrate",
            "migrate",
            _OURS + "; one backup NIC takes what was lost",
        ),
        Arm("balance", "R2CC, balance", "migrate", "migrate", "balance", _OURS + "; all NICs that are left share"),
        Arm("allreduce", "R2CC, schedules", "migrate", "migrate", "allreduce", _OURS + "; the planner's schedules"),
        Arm("optcc", "OptCC", "migrate", "migrate", "optcc", "OptCC (arXiv 2606.01680) on top of R2CC's migration"),
    )
}


def arm(name: str) -> Arm:
    """Raises UsageError for one that is not there."""
    if name not in ARMS:
        raise UsageError(f"there is no arm {name}", f"one of {', '.join(ARMS)}")
    return ARMS[name]


def rule(of: Arm, left: Left, params: Any, iteration_s: float = 0.0, *, silent: bool = False) -> Rule:
    """What the arm does to a running job. `iteration_s`: what one costs, for arms that lose the one in flight.

    `silent`: nobody is told, as with a black hole. Only our own arms are told at all: others wait for timeouts."""
    tolerance_s = params.stock_tolerance_s.value
    if left is Left.SLOWER:
        return Rule()
    if left is Left.NOTHING:
        return Rule(wait_s=tolerance_s, fatal_after_s=tolerance_s)
    reaction = of.port if left is Left.PORT else of.nic
    if reaction == "migrate":
        return Rule(wait_s=(params.stall_silent_ms if silent else params.stall_ms).value / 1000)
    if reaction == "failover":  # sits out what is back before the retries end
        return Rule(wait_s=params.upstream_detect_s.value)
    if reaction == "exclude":  # the collective in flight does not come back, so its iteration is done again
        replan_s = params.exclusion_replan_s.value
        return Rule(wait_s=params.exclusion_detect_s.value, extra_s=replan_s + iteration_s, back_s=replan_s)
    return Rule(wait_s=tolerance_s, fatal_after_s=tolerance_s)


def runs_with(of: Arm, left: Sequence[float]) -> bool:
    """Whether a host with these capacities can take part at all: stock needs every NIC that it began with."""
    if of.nic == "migrate" or of.excludes:
        return any(left)
    return all(left)


def traffic_share(of: Arm, left: Sequence[float]) -> float:
    """Share of a healthy host's rate that its point-to-point traffic gets, every GPU at home on its own NIC.

    migrate: the next NIC that is left carries what a lost one did, beside its own. balance and above: what is left.
    Others: as slow as the slowest. 0: nothing runs."""
    if not runs_with(of, left):
        return 0.0
    alive = [share for share in left if share > 0]
    if of.excludes:
        return sum(alive) / len(alive)
    if of.solver in ("stock", "upstream"):
        return min(left)
    if of.solver != "migrate":
        return sum(left) / len(left)
    return _one_backup(left)


def _one_backup(left: Sequence[float]) -> float:
    """Lost NICs' loads go to the next one that is left, round and round."""
    count = len(left)
    loads = [0] * count
    for nic in range(count):
        taker = next(index % count for index in range(nic, nic + count) if left[index % count] > 0)
        loads[taker] += 1
    return min(share / load for share, load in zip(left, loads, strict=True) if load)
