"""The kinds of workloads, by name: how each is checked, which figures it gives, and who runs it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from chaos.simulate.workloads import scenario
from chaos.simulate.workloads.sections import Faults
from harness.config.fitting import words

Place = tuple[str | int, ...]
KINDS = ("collective", "training", "serving", "job")


def kind(name: str) -> Any:
    """The module of a kind: Section, FIGURES, DRAWN, problems and run."""
    return import_module(f"chaos.simulate.workloads.{name}")


def section(workload: Mapping[str, Any]) -> Any:
    """A checked workload as its kind's model."""
    return kind(str(workload["kind"])).Section.model_validate(workload)


def resolved(workload: Mapping[str, Any]) -> dict[str, Any]:
    """With its defaults."""
    found: dict[str, Any] = section(workload).model_dump(mode="json", by_alias=True)
    return found


def figures(workload: Any) -> tuple[str, ...]:
    """Names of what a kind of workload gives; nothing for one that there is not."""
    name = workload.get("kind") if isinstance(workload, dict) else None
    return tuple(kind(name).FIGURES) if name in KINDS else ()


def problems(value: Mapping[str, Any], known: Collection[str] = ()) -> Iterator[tuple[Place, str]]:
    """(place, what) for all that is wrong with a point's topology, workload, parameters and faults together.

    Of sections in `known` it is known that they are wrong.
    """
    from chaos.simulate import params

    topology, errors = (None, ()) if "topology" in known else _topology(_plain(value.get("topology")))
    yield from ((("topology", *place), text) for place, text in errors)
    if "params" not in known:
        wrong_params = params.problems(value.get("params") or {})
        yield from ((("params",), f"params: {name}: {text}") for name, text in wrong_params)
    checked, wrong = (None, []) if "workload" in known else _workload(value.get("workload"))
    yield from ((("workload", *place), text) for place, text in wrong)
    if topology is None:
        return
    if checked is not None:
        for key, text in kind(checked.kind).problems(checked, topology):
            yield ("workload", *key.split(".")), text
    if "faults" not in known:
        yield from _faults(value.get("faults") or {}, topology, checked)


def _plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


@lru_cache(maxsize=256)
def _topology(text: str) -> tuple[Any, Sequence[tuple[Place, str]]]:
    """(the topology, or None with what is wrong)."""
    from chaos.simulate.cluster import topology_files as topologies

    return topologies.check(json.loads(text))


def _workload(value: Any) -> tuple[Any, list[tuple[Place, str]]]:
    """(the section, or None with what is wrong)."""
    name = value.get("kind") if isinstance(value, dict) else None
    if name not in KINDS:
        return None, [(("kind",) if name is not None else (), f"a kind is needed: {', '.join(KINDS)}")]
    model = kind(name).Section
    try:
        return model.model_validate(value), []
    except ValidationError as error:
        return None, [(problem["loc"], words(model, problem)) for problem in error.errors()]


def _faults(value: Any, topology: Any, workload: Any) -> Iterator[tuple[Place, str]]:
    from chaos.simulate.faults import generators, timeline, trace

    try:
        faults = Faults.model_validate(value)
    except ValidationError:
        return
    most = scenario.most_failed(topology.hosts, topology.nics, faults.spread)
    if faults.failed_nics is not None and faults.failed_nics > most:
        yield ("faults", "failed_nics"), f"{most} NICs can fail here ({faults.spread}), with one left on every host"
    for index, entry in enumerate(faults.listed or ()):
        only = trace.listed([scenario.fault_of(entry, faults.days)], faults.days, topology.name)
        wrong = trace.place_problem(entry.what, entry.where)
        for text in [wrong] if wrong else [text.partition(": ")[2] for text in timeline.misplaced(only, topology)]:
            yield ("faults", "list", index), text
    for name, text in generators.rate_problems(faults.rates):
        yield ("faults", "rates", *([name] if name else [])), text
    if getattr(workload, "hit_at", None) is not None and not (faults.listed or faults.failed_nics):
        yield ("faults",), "workload.hit_at needs a fault: a list, or failed_nics"
