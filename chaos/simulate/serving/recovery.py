"""What one failure costs with one arm in terms of another's cost, and which parameters that depends on.

R2CC (arXiv 2512.25059) reports "47x" against DejaVu; its project's page says the same as "reduces failure-induced
overhead by up to 98 % for inference": 1 - 1/47 = 97.9 %. So it is a ratio of overheads: how much longer requests take
than without a failure, with DejaVu over with R2CC. The formula itself is not in what we could read: inferred."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from chaos.simulate import params as parameters
from chaos.simulate.cluster import topology_files as topologies
from chaos.simulate.faults.timeline import Interval, timeline
from chaos.simulate.faults.trace import DAY_S, Fault, Trace
from chaos.simulate.serving.llms import llm
from chaos.simulate.serving.load import Length, Requests, draw
from chaos.simulate.serving.pace import Paces
from chaos.simulate.serving.result import ServingResult, overhead
from chaos.simulate.serving.service import Service
from chaos.simulate.serving.simulation import simulate

PAPER_DEJAVU, PAPER_OVERHEAD = 47.0, 0.03
"""R2CC (arXiv 2512.25059), abstract: against DejaVu, and below it with one NIC gone."""
DEJAVU_RESTART, DEJAVU = 1.91, 1.24
"""Latency with one failure over that without, starting anew and with DejaVu (arXiv 2403.01876): 1.91 / 1.24 = 1.54.
As notes on the paper quote it; the paper's own page was not read."""

Solvers = Callable[[Any], Any]
"""A solver for parameters."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one failure with one arm. Overheads: mean over all requests, against the same requests with no failure and
    with nothing that an arm does always (stock NCCL). `lost_s`: how much later they were done, all together."""

    arm: str
    overhead: float
    ttft_overhead: float
    tpot_overhead: float
    outage_s: float
    lost_s: float


@dataclass(frozen=True, slots=True)
class Failure:
    """One NIC of the first host. `duration_s` inf: for good."""

    at_s: float = 60.0
    duration_s: float = inf

    def intervals(self, topology: Any) -> list[Interval]:
        days = 365.0
        lasts_s = min(self.duration_s, days * DAY_S - self.at_s)
        fault = Fault(self.at_s, lasts_s, "cut", "nic", (0, 0), 0.0, "failure")
        return timeline(Trace(0, days, topology.name, (fault,)), topology)


def costs(
    service: Service, arms: Sequence[str], solver: Any, params: Any, *, failure: Failure, seed: int
) -> dict[str, Cost]:
    paces = Paces(service, solver, params)
    asked = draw(service.requests, service.rate, service.prompt, service.output, seed)
    healthy = simulate(service, "stock", (), solver, params, seed=seed, requests=asked, paces=paces)
    intervals = failure.intervals(service.topology)
    found = {}
    for name in arms:
        got = simulate(service, name, intervals, solver, params, seed=seed, requests=asked, paces=paces)
        found[name] = cost(got, healthy, asked)
    return found


def cost(got: ServingResult, healthy: ServingResult, asked: Requests) -> Cost:
    latency, ttft, tpot = (overhead(got, healthy, of) for of in ("latency_s", "ttft_ms", "tpot_ms"))
    lost_s = latency * healthy.latency_s.mean * len(asked.prompt)
    return Cost(got.arm, latency, ttft, tpot, max(got.outages_s, default=0.0), lost_s)


def ratio(found: dict[str, Cost], other: str = "kv_replication", ours: str = "balance") -> float:
    return found[other].overhead / found[ours].overhead if found[ours].overhead > 0 else inf


@dataclass(frozen=True, slots=True)
class Weight:
    """The ratio with a parameter halved and doubled."""

    name: str
    halved: float
    doubled: float


def weights(
    service: Service, solvers: Solvers, params: Any, names: Sequence[str], *, failure: Failure, seed: int
) -> list[Weight]:
    """Of what the ratio depends on, most first."""
    arms = ("kv_replication", "balance")

    def with_factor(name: str, factor: float) -> float:
        changed = parameters.changed(params, {name: params[name].value * factor})
        return ratio(costs(service, arms, solvers(changed), changed, failure=failure, seed=seed))

    found = [Weight(name, with_factor(name, 0.5), with_factor(name, 2.0)) for name in names]
    return sorted(found, key=lambda each: -max(each.halved, each.doubled) / min(each.halved, each.doubled))


A100 = {"gpu_tflops": 312.0, "hbm_GBps": 2039.0, "hbm_GB": 80.0}
"""NVIDIA's data sheet, A100 80 GB SXM."""
ONE_BATCH = Service(
    llm("opt-66b"),
    topology=None,
    tp=2,
    pp=4,
    requests=32,
    rate=inf,
    prompt=Length(500),
    output=Length(1000),
    max_batch=32,
)
"""DejaVu's setting as far as it is told: OPT-66B, four stages of two A100s, 40 Gbit/s; lengths and batch are ours."""


def one_batch(solvers: Callable[[Any, Any], Any], params: Any, share: float) -> tuple[float, float]:
    """Latency with one host lost at that share of the run, over that without: stock NCCL, and KV replication.

    `solvers` makes one of a topology and parameters. The worker is dead at once, and a spare stands in."""
    machines = topologies.load(
        {"name": "dejavu", "hosts": 5, "gpus": 2, "nics": 1, "rate_gbit": 40.0, "nvlink_GBps": 250.0}
    )
    service = replace(ONE_BATCH, topology=machines)
    changed = parameters.changed(params, {**A100, "stock_tolerance_s": 0.0})
    solver = solvers(machines, changed)
    whole = simulate(service, "stock", (), solver, changed, seed=1)
    failure = Failure(at_s=share * whole.wall_s).intervals(machines)
    stock, kept = (
        simulate(service, name, failure, solver, changed, seed=1).latency_s.mean / whole.latency_s.mean
        for name in ("stock", "kv_replication")
    )
    return stock, kept
