"""Which published kinds of network failure each arm survives, with their frequency; and the parameters as told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.simulate.run.experiment import Point

Json = dict[str, Any]
OUTCOMES = ("survived", "degraded", "restart")


def params(overrides: Mapping[str, Any]) -> list[Json]:
    """Every parameter with its basis and its source."""
    from chaos.simulate import params as parameters

    return [
        {"name": name, "value": param.value, "unit": param.unit, "basis": param.basis, "source": param.source}
        for name, param in parameters.load(overrides).items()
    ]


def rows(point: Point, tallies: Mapping[str, Json]) -> list[Json]:
    """By kind of fault, from what the traces of a job came to: nothing where the workload is no job."""
    by_arm = {arm: found["by_kind"] for arm, found in tallies.items() if "by_kind" in found}
    names = list(dict.fromkeys(kind for found in by_arm.values() for kind in found))
    counts = {kind: max(_count(found.get(kind, {})) for found in by_arm.values()) for kind in names}
    total = sum(counts.values())
    months = float(point.faults["days"]) / 30 * int(point.faults["traces"])
    return [
        {
            "kind": kind,
            "rate_per_month": counts[kind] / months,
            "share": counts[kind] / total if total else None,
            "arms": {arm: _outcome(found.get(kind, {})) for arm, found in by_arm.items()},
        }
        for kind in sorted(names, key=lambda kind: -counts[kind])
    ]


def _count(found: Mapping[str, float]) -> float:
    return sum(found.get(outcome, 0) for outcome in OUTCOMES)


def _outcome(found: Mapping[str, float]) -> Json:
    """How often a kind came to what, and what it came to mostly."""
    count = _count(found)
    shares = {outcome: found.get(outcome, 0) / count if count else None for outcome in OUTCOMES}
    mostly = max(OUTCOMES, key=lambda outcome: found.get(outcome, 0)) if count else None
    return {"outcome": mostly, **shares}
