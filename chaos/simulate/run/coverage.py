"""Which published kinds of network failure each arm survives, with their frequency; and the parameters as told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from chaos.simulate.params import Basis
from chaos.simulate.run.experiment import Point
from harness.schemas.form import Amount, Limits, Share

Tallies = Mapping[str, Any]
OUTCOMES = ("survived", "degraded", "restart")


@dataclass(frozen=True)
class Param:
    name: str
    value: Any
    unit: str
    basis: Basis
    source: Annotated[str, Limits(minLength=1)]


@dataclass(frozen=True)
class Covered:
    """How often a kind came to what, and what it came to mostly."""

    outcome: Literal["survived", "degraded", "restart"] | None
    survived: Share | None
    degraded: Share | None
    restart: Share | None


@dataclass(frozen=True)
class Coverage:
    """A kind of failure."""

    kind: str
    rate_per_month: Amount
    share: Share | None
    arms: Mapping[str, Covered]


def params(overrides: Mapping[str, Any], topology: Mapping[str, Any]) -> list[Param]:
    """Every parameter with its basis and its source."""
    from chaos.simulate import params as parameters
    from chaos.simulate.cluster import topology_files as topologies

    return [
        Param(name, param.value, param.unit, param.basis, param.source)
        for name, param in parameters.load(overrides, topologies.load(topology).costs_found).items()
    ]


def rows(point: Point, tallies: Mapping[str, Tallies]) -> list[Coverage]:
    """By kind of fault, from what the traces of a job came to: nothing where the workload is no job."""
    by_arm = {arm: found["by_kind"] for arm, found in tallies.items() if "by_kind" in found}
    names = list(dict.fromkeys(kind for found in by_arm.values() for kind in found))
    counts = {kind: max(_count(found.get(kind, {})) for found in by_arm.values()) for kind in names}
    total = sum(counts.values())
    months = float(point.faults["days"]) / 30 * int(point.faults["traces"])
    return [
        Coverage(
            kind=kind,
            rate_per_month=counts[kind] / months,
            share=counts[kind] / total if total else None,
            arms={arm: _outcome(found.get(kind, {})) for arm, found in by_arm.items()},
        )
        for kind in sorted(names, key=lambda kind: -counts[kind])
    ]


def _count(found: Mapping[str, float]) -> float:
    return sum(found.get(outcome, 0) for outcome in OUTCOMES)


def _outcome(found: Mapping[str, float]) -> Covered:
    count = _count(found)
    shares = {outcome: found.get(outcome, 0) / count if count else None for outcome in OUTCOMES}
    mostly: Any = max(OUTCOMES, key=lambda outcome: found.get(outcome, 0)) if count else None
    return Covered(mostly, **shares)
