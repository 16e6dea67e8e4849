"""What the core reads of the parameters, with the values for whoever gives none. Names are those of params.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Default:
    value: float
    unit: str
    basis: Literal["measured", "published", "assumed"]
    source: str


_FIT = "benchmarks/schedules.py --fit on sockets (docs/schedules.md)"
DEFAULTS: Mapping[str, Default] = {
    "hop_us": Default(5, "us", "assumed", "RDMA from rank to rank, with the kernel's turn; the lab's sockets have 199"),
    "local_hop_us": Default(2, "us", "assumed", "as the planner's default"),
    "chunk_bytes": Default(32768, "bytes", "published", "what a chain hands on at a time: R2CC_CHAIN_CHUNK_BYTES"),
    "ring_efficiency": Default(0.99, "", "measured", _FIT),
    "chain_efficiency": Default(0.984, "", "measured", _FIT),
    "staged_efficiency": Default(0.982, "", "measured", _FIT),
    "even_rails": Default(1, "", "measured", "what the resilient net does (docs/schedules.md)"),
    "margin": Default(0.02, "", "assumed", "as the planner's default"),
    "channels": Default(64, "parts", "published", "NCCL 2.29.7: MAXCHANNELS 64; 0: as many as the planner likes"),
    "detect_ms": Default(
        3.5, "ms", "measured", "the kernel tells of a link-down 3-4 ms after it (docs/results/figures.md)"
    ),
    "handshake_ms": Default(1.5, "ms", "measured", "the two ends agree in 1-2 ms (docs/results/figures.md)"),
    "replay_bytes": Default(1 << 20, "bytes", "assumed", "eight chunks of 128 KiB of a connection on their way"),
    "failback_ms": Default(
        311, "ms", "measured", "median until 98 % of healthy after link-up (docs/results/figures.md)"
    ),
    "slow_detect_ms": Default(822, "ms", "measured", "until a NIC at half rate is relieved (docs/results/figures.md)"),
    "stock_resume_ms": Default(500, "ms", "measured", "TCP goes on 0.1-1.0 s after the outage"),
    "stock_tolerance_s": Default(7, "s", "published", "a port down for more than 7 s kills a stock run (Databricks)"),
    "upstream_detect_s": Default(
        30, "s", "published", "NCCL 2.29.7's port failover, after retries with default timeouts"
    ),
    "exclusion_detect_s": Default(7, "s", "assumed", "as long as stock NCCL sits an outage out"),
    "exclusion_replan_s": Default(1, "s", "assumed", "AdapCC (ICDCS'24) plans anew without restarting workers"),
}
COST = (
    "hop_us",
    "local_hop_us",
    "chunk_bytes",
    "ring_efficiency",
    "chain_efficiency",
    "staged_efficiency",
    "even_rails",
    "margin",
)
RECOVERY = {
    "detect_us": ("detect_ms", 1e3),
    "handshake_us": ("handshake_ms", 1e3),
    "replay_bytes": ("replay_bytes", 1),
    "failback_us": ("failback_ms", 1e3),
    "slow_us": ("slow_detect_ms", 1e3),
    "resume_us": ("stock_resume_ms", 1e3),
    "tolerance_us": ("stock_tolerance_s", 1e6),
    "failover_us": ("upstream_detect_s", 1e6),
    "exclude_us": ("exclusion_detect_s", 1e6),
    "replan_us": ("exclusion_replan_s", 1e6),
}
EXACT = {
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
    """Of Params, of a mapping from names to numbers, or the default."""
    if isinstance(params, Mapping) and name in params:
        found = params[name]
    else:
        found = getattr(params, name, DEFAULTS[name])
    return float(getattr(found, "value", found))


def cost(params: Any) -> dict[str, float]:
    found = {name: value(params, name) for name in COST}
    return {**found, "even_rails": int(found["even_rails"])}


def recovery(params: Any) -> dict[str, float]:
    return {name: value(params, source) * factor for name, (source, factor) in RECOVERY.items()}
