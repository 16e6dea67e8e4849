"""Workload `serving`: requests to a language model while NICs fail, over the first part of a trace."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any
from weakref import WeakKeyDictionary

from chaos.simulate import params as parameters
from chaos.simulate import serving
from chaos.simulate.figures import SERVING as FIGURES
from chaos.simulate.scenario import Result, Scenario, Work
from chaos.simulate.sections import Lengths
from chaos.simulate.sections import Serving as Section
from chaos.simulate.serving.load import Requests
from chaos.simulate.serving.result import Spread
from harness.errors import UsageError

__all__ = ["DRAWN", "FIGURES", "Section", "problems", "ready", "run"]
DRAWN = ("ttft_p99_ms", "tpot_p99_ms", "latency_overhead")

Shared = tuple[Requests, serving.ServingResult]
_paces: WeakKeyDictionary[object, dict[Section, serving.Paces]] = WeakKeyDictionary()


def service_of(section: Section, topology: Any) -> serving.Service:
    """Raises UsageError for a model or for lengths that there are not."""
    known = serving.mix(section.lengths)
    prompt, output = _length(section.prompt, known.prompt), _length(section.output, known.output)
    slo = serving.Slo(section.ttft_slo_ms, section.tpot_slo_ms)
    same = ("tp", "pp", "instances", "prefills", "requests", "rate", "max_batch", "budget", "queue")
    given = {name: getattr(section, name) for name in same}
    return serving.Service(serving.llm(section.model), topology, prompt=prompt, output=output, slo=slo, **given)


def _length(given: Lengths | None, known: serving.Length) -> serving.Length:
    return known if given is None else serving.Length(given.median, given.sigma, given.most)


def problems(section: Section, topology: Any) -> Iterator[tuple[str, str]]:
    """(key, what) for everything that does not fit. Memory is looked at with the shipped parameters."""
    for key, look in (("model", serving.llm), ("lengths", serving.mix)):
        try:
            look(getattr(section, key))
        except UsageError as error:
            yield key, str(error).replace("\n  try: ", "; ")
            return
    yield from serving.problems(service_of(section, topology), parameters.load())


def _known(work: Work) -> serving.Paces:
    """Made once for a solver and a service; the load is no matter."""
    known = _paces.setdefault(work.solver, {})
    key = work.workload.model_copy(update={"rate": 1.0, "requests": 1})
    if key not in known:
        known[key] = serving.Paces(service_of(work.workload, work.topology), work.solver, work.params)
    return known[key]


def ready(work: Work, scenario: Scenario) -> Shared:
    """The requests, and how they fare with nothing broken and nothing done about it."""
    service = service_of(work.workload, work.topology)
    asked = serving.draw(service.requests, service.rate, service.prompt, service.output, scenario.seed)
    return asked, _simulate(work, service, "stock", (), asked)


def _simulate(work: Work, service: serving.Service, arm: str, intervals: Any, asked: Requests) -> serving.ServingResult:
    return serving.simulate(
        service, arm, intervals, work.solver, work.params, seed=0, requests=asked, paces=_known(work)
    )


def run(work: Work, arm: str, scenario: Scenario, shared: Shared) -> Result:
    """Overheads are against the same requests with nothing broken; `recovery_s` is of the first fault that is felt."""
    asked, healthy = shared
    service = service_of(work.workload, work.topology)
    found = _simulate(work, service, arm, scenario.intervals, asked)
    onsets = [fault.t_s for interval in scenario.intervals for fault in interval.onset]
    recovery = serving.recovery_s(found, healthy, onsets[0]) if onsets and found.outages_s else 0.0
    values = {
        **_percentiles("ttft", found.ttft_ms),
        **_percentiles("tpot", found.tpot_ms),
        "gap_p99_ms": found.gap_ms.p99,
        "gap_max_ms": found.gap_ms.sketch[-1] if found.gap_ms.sketch else inf,
        "completed": found.completed / found.arrived,
        "slo": found.slo,
        "tokens_per_s": found.tokens_per_s,
        "recovery_s": recovery,
        "ttft_overhead": serving.overhead(found, healthy, "ttft_ms"),
        "tpot_overhead": serving.overhead(found, healthy, "tpot_ms"),
        "latency_overhead": serving.overhead(found, healthy),
    }
    return Result({name: value if value < inf else None for name, value in values.items()})


def _percentiles(name: str, spread: Spread) -> dict[str, float]:
    return {f"{name}_{at}_ms": getattr(spread, at) for at in ("p50", "p90", "p99")}
