"""What one failure costs with one arm in terms of another's cost, and which parameters that depends on.

R2CC (arXiv 2512.25059) reports "47x" against DejaVu; its project's page says the same as "reduces failure-induced
overhead by up to 98 % for inference": 1 - 1/47 = 97.9 %. So it is a ratio of overheads: how much longer requests take
than without a failure, with DejaVu over with R2CC. The formula itself is not in what we could read: inferred."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal

from chaos.simulate import params as parameters
from chaos.simulate.cluster import topology_files as topologies
from chaos.simulate.faults.timeline import Interval, timeline
from chaos.simulate.faults.trace import DAY_S, Fault, Trace
from chaos.simulate.serving.llms import llm
from chaos.simulate.serving.load import Length, draw
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
Measure = Literal["latency_s", "ttft_ms", "tpot_ms"]


@dataclass(frozen=True, slots=True)
class Weight:
    """The ratio with a parameter halved and doubled."""

    name: str
    halved: float
    doubled: float


def failure(topology: Any, at_s: float = 60.0) -> list[Interval]:
    """One NIC of the first host is gone for good."""
    days = 365.0
    fault = Fault(at_s, days * DAY_S - at_s, "cut", "nic", (0, 0), 0.0, "failure")
    return timeline(Trace(0, days, topology.name, (fault,)), topology)


def overheads(
    paces: Paces, arms: Sequence[str], intervals: Sequence[Interval], *, seed: int, of: Measure = "latency_s"
) -> dict[str, float]:
    """Of each arm how much longer requests took in the mean than the same ones without a failure, and with nothing that
    an arm does always (stock NCCL)."""
    service, solver, params = paces.service, paces.solver, paces.params
    asked = draw(service.requests, service.rate, service.prompt, service.output, seed)

    def result(name: str, what: Sequence[Interval]) -> ServingResult:
        return simulate(service, name, what, solver, params, seed=seed, requests=asked, paces=paces)

    healthy = result("stock", ())
    return {name: overhead(result(name, intervals), healthy, of) for name in arms}


def weights(service: Service, solvers: Solvers, params: Any, names: Sequence[str], seed: int) -> list[Weight]:
    """Of what the ratio of overheads, KV replication's over balance's, depends on; most first."""

    def ratio(name: str, factor: float) -> float:
        changed = parameters.changed(params, {name: params[name].value * factor})
        paces = Paces(service, solvers(changed), changed)
        theirs, ours = overheads(paces, ("kv_replication", "balance"), failure(service.topology), seed=seed).values()
        return theirs / ours if ours > 0 else inf

    found = [Weight(name, ratio(name, 0.5), ratio(name, 2.0)) for name in names]
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
    broken = failure(machines, share * whole.wall_s)
    stock, kept = (
        simulate(service, name, broken, solver, changed, seed=1).latency_s.mean / whole.latency_s.mean
        for name in ("stock", "kv_replication")
    )
    return stock, kept
