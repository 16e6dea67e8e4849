"""Workload `serving`: requests to a language model while NICs fail."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.simulate import params as parameters
from chaos.simulate.serving.llms import llm
from chaos.simulate.serving.load import Length, draw, mix
from chaos.simulate.serving.pace import Paces
from chaos.simulate.serving.result import ServingResult, overhead, recovery_s
from chaos.simulate.serving.service import Service, Slo
from chaos.simulate.serving.service import problems as wrong
from chaos.simulate.serving.simulation import simulate
from chaos.simulate.workloads.figures import SERVING as FIGURES
from chaos.simulate.workloads.scenario import Result, Scenario, Work
from chaos.simulate.workloads.sections import LengthSection
from chaos.simulate.workloads.sections import Serving as Section

__all__ = ["DRAWN", "FIGURES", "Section", "distributions", "problems", "ready", "run"]
DRAWN = ("ttft_p99_ms", "tpot_p99_ms", "overhead", "outage_s")
BINS = 50
"""Of a distribution, for each factor of ten: adjacent ones are 4.7 % apart."""
SHARES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)


@dataclass(frozen=True)
class Ready:
    """What is the same for all arms: the service, the requests, and how they fare without faults."""

    service: Service
    requests: Any
    healthy: ServingResult
    paces: Paces


def _service(section: Section, topology: Any) -> Service:
    known = mix(section.mix)
    return Service(
        llm(section.model), topology, section.tp, section.pp, section.instances, section.prefills, section.requests,
        section.rate, _length(section.prompt, known.prompt), _length(section.output, known.output), section.max_batch,
        section.budget, section.queue, Slo(section.slo_ttft_ms, section.slo_tpot_ms),
    )  # fmt: skip


def _length(section: LengthSection | None, known: Length) -> Length:
    return known if section is None else Length(section.median, section.sigma, section.most)


def problems(section: Section, topology: Any) -> Iterator[tuple[str, str]]:
    """(key, what) for everything that does not fit."""
    yield from wrong(_service(section, topology), parameters.load())


def ready(work: Work, scenario: Scenario) -> Ready:
    service = _service(work.workload, work.topology)
    paces = Paces(service, work.solver, work.params)
    requests = draw(service.requests, service.rate, service.prompt, service.output, scenario.seed)
    return Ready(service, requests, _simulate(work, "stock", scenario, (service, requests, paces), ()), paces)


def _simulate(
    work: Work, arm: str, scenario: Scenario, shared: tuple[Service, Any, Paces], intervals: Sequence[Any]
) -> ServingResult:
    service, requests, paces = shared
    return simulate(
        service, arm, intervals, work.solver, work.params, seed=scenario.seed, requests=requests, paces=paces
    )  # fmt: skip


def run(work: Work, arm: str, scenario: Scenario, shared: Ready) -> Result:
    """One arm over one trace, beside the same requests without faults."""
    how = (shared.service, shared.requests, shared.paces)
    found = _simulate(work, arm, scenario, how, scenario.intervals)
    onsets = [fault.t_s for interval in scenario.intervals for fault in interval.onset]
    values = {
        **{f"ttft_{at}_ms": getattr(found.ttft_ms, at) for at in ("p50", "p90", "p99")},
        **{f"tpot_{at}_ms": getattr(found.tpot_ms, at) for at in ("p50", "p90", "p99")},
        "gap_p99_ms": found.gap_ms.p99,
        "gap_max_ms": found.gap_ms.most,
        "completed": found.completed / found.arrived,
        "slo": found.slo,
        "overhead": overhead(found, shared.healthy),
        "ttft_overhead": overhead(found, shared.healthy, "ttft_ms"),
        "tpot_overhead": overhead(found, shared.healthy, "tpot_ms"),
        "outage_s": max(found.outages_s, default=0.0),
        "recovery_s": recovery_s(found, shared.healthy, onsets[0]) if onsets else 0.0,
        "tokens_per_s": found.tokens_per_s,
    }
    known = {name: value if math.isfinite(value) else None for name, value in values.items()}
    return Result(known, {"ttft": _counts(_ttft_ms(found)), "tpot": _counts(_tpot_ms(found))})


def _ttft_ms(found: ServingResult) -> Any:
    return (found.requests["first_s"] - found.requests["arrival_s"]) * 1e3


def _tpot_ms(found: ServingResult) -> Any:
    """Of requests that completed, with two tokens or more."""
    import numpy

    with numpy.errstate(invalid="ignore", divide="ignore"):
        each = (found.requests["finish_s"] - found.requests["first_s"]) / (found.requests["output"] - 1) * 1e3
    return each[found.requests["output"] > 1]


def _counts(times_ms: Any) -> dict[str, int]:
    """How many are in each bin of the logarithm."""
    import numpy

    known = times_ms[numpy.isfinite(times_ms) & (times_ms > 0)]
    bins, counts = numpy.unique(numpy.ceil(numpy.log10(known) * BINS).astype(int), return_counts=True)
    return {str(place): int(count) for place, count in zip(bins.tolist(), counts.tolist(), strict=True)}


def distributions(tallies: Mapping[str, Mapping[str, int]]) -> Iterator[dict[str, Any]]:
    """The value below which each of SHARES lies, to the width of a bin."""
    for name in ("ttft", "tpot"):
        counts = sorted((int(place), count) for place, count in tallies.get(name, {}).items())
        if counts:
            yield {"name": name, "unit": "ms", "quantiles": [[share, _value(counts, share)] for share in SHARES]}


def _value(counts: Sequence[tuple[int, int]], share: float) -> float:
    wanted, seen = share * sum(count for _, count in counts), 0
    for place, count in counts:
        seen += count
        if seen >= wanted:
            return float(10 ** (place / BINS))
    return float(10 ** (counts[-1][0] / BINS))
