"""What a simulation of serving comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from chaos.simulate.serving.instance import Book
from chaos.simulate.serving.service import Service, Slo

Floats = npt.NDArray[np.float64]
BLOCK = 20


@dataclass(frozen=True, slots=True)
class Spread:
    """Of one kind of time over requests. inf where none is known."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    most: float


@dataclass(frozen=True, slots=True)
class ServingResult:
    """`arrived` = `completed` + `in_flight` + `rejected`. TTFT is of requests with a first token, TPOT and the longest
    gap between two tokens of those that completed with two tokens or more.

    `outages_s`: of each fault that an instance felt, how long it gave nobody a token. `slo`: share of the arrived that
    kept both limits. `seeds`: of the random streams."""

    arm: str
    arrived: int
    completed: int
    in_flight: int
    rejected: int
    ttft_ms: Spread
    tpot_ms: Spread
    gap_ms: Spread
    latency_s: Spread
    tokens_per_s: float
    slo: float
    outages_s: tuple[float, ...]
    restarts: int
    redone_tokens: int
    moved_bytes: float
    wall_s: float
    seeds: Mapping[str, int]
    requests: Mapping[str, Floats]
    """By name, each request's `arrival_s`, `first_s`, `finish_s`, `gap_s`, `prompt`, `output`."""


def spread(values: Floats) -> Spread:
    known = values[np.isfinite(values)]
    if not len(known):
        return Spread(0, inf, inf, inf, inf, inf)
    p50, p90, p99 = np.percentile(known, [50, 90, 99]).tolist()
    return Spread(len(known), float(known.mean()), p50, p90, p99, float(known.max()))


def result(service: Service, name: str, book: Book, tally: Any, seeds: Mapping[str, int]) -> ServingResult:
    names = ("arrival_s", "first_s", "finish_s", "gap_s", "prompt", "output")
    data = {key: np.array(getattr(book, key), dtype=np.float64) for key in names}
    output, rejected = data["output"], np.array(book.rejected)
    done = np.isfinite(data["finish_s"])
    ttft_s = data["first_s"] - data["arrival_s"]
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot_s = np.where(done & (output > 1), (data["finish_s"] - data["first_s"]) / (output - 1), inf)
    gaps_s = np.where(done & (output > 1), data["gap_s"], inf)
    wall_s = float(data["finish_s"][done].max()) if done.any() else 0.0
    return ServingResult(
        arm=name,
        arrived=len(output),
        completed=int(done.sum()),
        in_flight=int((~done & ~rejected).sum()),
        rejected=int(rejected.sum()),
        ttft_ms=spread(ttft_s * 1e3),
        tpot_ms=spread(tpot_s * 1e3),
        gap_ms=spread(gaps_s * 1e3),
        latency_s=spread(data["finish_s"] - data["arrival_s"]),
        tokens_per_s=float(output[done].sum()) / wall_s if wall_s else 0.0,
        slo=_slo(service.slo, ttft_s, tpot_s, done, output),
        outages_s=tuple(tally.outages_s),
        restarts=tally.restarts,
        redone_tokens=book.redone_tokens,
        moved_bytes=tally.moved_bytes,
        wall_s=wall_s,
        seeds=seeds,
        requests=data,
    )


def _slo(slo: Slo, ttft_s: Floats, tpot_s: Floats, done: Any, output: Floats) -> float:
    quick = ttft_s * 1e3 <= slo.ttft_ms
    steady = (tpot_s * 1e3 <= slo.tpot_ms) | (output == 1)
    return float((done & quick & steady).mean())


def overhead(found: ServingResult, healthy: ServingResult, of: str = "latency_s") -> float:
    """How much longer requests took in the mean than the same ones without faults, less one. inf: not all completed."""
    if found.completed < healthy.completed:
        return inf
    mine, theirs = (getattr(each, of).mean for each in (found, healthy))
    return mine / theirs - 1 if theirs > 0 and isfinite(theirs) else inf


def recovery_s(found: ServingResult, healthy: ServingResult, onset_s: float, slower: float = 0.1) -> float:
    """From a fault until the service is as fast as before: the outage, and on to the first BLOCK requests in a row that
    took no more than `slower` longer, in the mean, than without faults. inf: never; some did not complete."""
    arrival, mine, theirs = (found.requests["arrival_s"], found.requests["finish_s"], healthy.requests["finish_s"])
    outage_s = max(found.outages_s, default=0.0)
    after = np.flatnonzero((arrival >= onset_s + outage_s) & np.isfinite(theirs))
    if np.isinf(mine[np.isfinite(theirs)]).any():
        return inf
    for at in range(0, len(after) - BLOCK + 1, BLOCK // 2):
        block = after[at : at + BLOCK]
        if (mine - arrival)[block].sum() <= (1 + slower) * (theirs - arrival)[block].sum():
            return max(outage_s, float(arrival[block[0]]) - onset_s) if at else outage_s
    return inf if len(after) >= BLOCK else outage_s
