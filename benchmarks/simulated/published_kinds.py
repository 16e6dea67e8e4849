"""What each arm makes of the published kinds of network failure (kinds.yaml): by its rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

from chaos.simulate.cluster.arms import ARMS, NOTICEABLE_S, Arm, Left, arm, rule
from simulated.kinds import PublishedKind, published

Result = Literal["survived", "degraded", "restart"]


@dataclass(frozen=True, slots=True)
class Judged:
    kind: PublishedKind
    left: Left
    arms: Mapping[str, Result]


def judged(params: Any, topology: Any, arms: Sequence[str] = tuple(ARMS)) -> list[Judged]:
    """On a topology, which decides what a ToR takes with it. Flaps last their median, all else for good."""
    return [_judged(kind, params, topology, arms) for kind in published()]


def shares(rows: Sequence[Judged], name: str) -> dict[str, float]:
    """By source that counted its failures, the share of them after which a job goes on."""
    counts: dict[str, list[float]] = {}
    for row in rows:
        if row.kind.share is not None:
            went_on = row.kind.share if row.arms[name] != "restart" else 0.0
            counts.setdefault(row.kind.source, []).append(went_on)
    return {source: sum(found) for source, found in counts.items()}


def _judged(kind: PublishedKind, params: Any, topology: Any, arms: Sequence[str]) -> Judged:
    left, lasts_s = left_by(kind, topology), float(params.flap_s.value) if kind.fault == "flap" else inf
    return Judged(kind, left, {name: outcome(arm(name), left, lasts_s, params) for name in arms})


def left_by(kind: PublishedKind, topology: Any) -> Left:
    """What one such fault leaves a host that was whole; the fabric routes around spines."""
    if kind.fault == "degraded" or kind.what == "spine":
        return Left.SLOWER
    if kind.what == "host":
        return Left.NOTHING
    if kind.what in {"port", "tor"} and topology.ports > 1:
        return Left.PORT
    alone = topology.nics == 1 or (kind.what == "tor" and topology.fabric.kind == "rack")
    return Left.NOTHING if alone else Left.NIC


def outcome(of: Arm, left: Left, duration_s: float, params: Any, iteration_s: float = 0.0) -> Result:
    """In a word. An arm that gives up GPUs is degraded for as long as the fault lasts."""
    applied = rule(of, left, params, iteration_s)
    if applied.fatal(duration_s):
        return "restart"
    gives_up = of.excludes and left is Left.NIC and duration_s > applied.wait_s
    return "degraded" if gives_up or applied.stall_s(duration_s) > NOTICEABLE_S else "survived"


def survives(of: Arm, params: Any, lasting_s: float = inf) -> dict[Left, Result]:
    """What becomes of a job for each thing that a lasting fault can leave."""
    return {left: outcome(of, left, lasting_s, params) for left in Left}
