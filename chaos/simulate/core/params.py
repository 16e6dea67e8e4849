"""What the core reads of the parameters (params.py), in its own units."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

COST = (
    "hop_us",
    "local_hop_us",
    "chunk_bytes",
    "ring_efficiency",
    "chain_efficiency",
    "staged_efficiency",
    "margin",
)
RECOVERY = {
    "detect_us": ("detect_ms", 1e3),
    "handshake_us": ("handshake_ms", 1e3),
    "replay_bytes": ("replay_bytes", 1),
    "failback_us": ("return_ms", 1e3),
    "slow_us": ("detect_degraded_ms", 1e3),
    "resume_us": ("stock_resume_ms", 1e3),
    "tolerance_us": ("stock_tolerance_s", 1e6),
    "failover_us": ("upstream_detect_s", 1e6),
    "exclude_us": ("exclusion_detect_s", 1e6),
    "replan_us": ("exclusion_replan_s", 1e6),
}
EXACT: Mapping[str, float] = {
    "hop_us": 0.0,
    "local_hop_us": 0.0,
    "chunk_bytes": 1.0,
    "ring_efficiency": 1.0,
    "chain_efficiency": 1.0,
    "staged_efficiency": 1.0,
    "channels": 0.0,
}
"""Bandwidth alone: what formulas have. A byte a chunk leaves nothing to speak of to fill."""


def value(params: Any, name: str) -> float:
    """Of Params, or of a mapping from names to numbers; what that lacks is as shipped."""
    given = isinstance(params, Mapping) and name in params
    found = params[name] if given else _shipped()[name]
    return float(getattr(found, "value", found))


def cost(params: Any) -> dict[str, float]:
    """As the planner's."""
    return {**{name: value(params, name) for name in COST}, "even_rails": int(value(params, "even_rails"))}


def nccl(params: Any) -> dict[str, Any]:
    """What NCCL runs on, as a question's key; nothing where that is not known: numbers by name say nothing of it."""
    machine = getattr(params, "nccl", None)
    return {} if machine is None else {"nccl": machine}


def recovery(params: Any) -> dict[str, float]:
    """As r2cc_patches/sim/hit.h has it."""
    return {name: value(params, source) * factor for name, (source, factor) in RECOVERY.items()}


@cache
def _shipped() -> Mapping[str, Any]:  # the costs of hosts with NVLink with them
    from chaos.simulate.params import load

    return load()
