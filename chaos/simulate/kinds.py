"""The kinds of workloads, by name: how each is checked, which figures it gives, and who runs it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from chaos.simulate import scenario
from chaos.simulate.sections import Faults
from harness.errors import InputErrors, UsageError

Place = tuple[str | int, ...]
KINDS = ("collective", "training", "serving", "job")


def kind(name: str) -> Any:
    """The module of a kind: Section, FIGURES, DRAWN, problems and run."""
    return import_module(f"chaos.simulate.kind_{name}")


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


def problems(value: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """(place, what) for all that is wrong with a point's topology, workload, parameters and faults together."""
    topology = yield from _topology(value.get("topology"))
    yield from _params(value.get("params") or {})
    checked = yield from _workload(value.get("workload"))
    if topology is None:
        return
    if checked is not None:
        for key, text in kind(checked.kind).problems(checked, topology):
            yield ("workload", *key.split(".")), text
    yield from _faults(value.get("faults") or {}, topology, checked)


def _topology(value: Any) -> Iterator[tuple[Place, str]]:
    """Returns the topology; None when there is none."""
    loaded, errors = _loaded(json.dumps(value, sort_keys=True, default=str))
    for text in errors:
        yield ("topology",), text
    return loaded  # type: ignore[return-value]


@lru_cache(maxsize=256)
def _loaded(text: str) -> tuple[Any, tuple[str, ...]]:
    from chaos.simulate import topology

    try:
        return topology.load(json.loads(text)), ()
    except InputErrors as error:
        return None, tuple(error.errors)
    except UsageError as error:
        return None, (error.message,)


def _params(value: Any) -> Iterator[tuple[Place, str]]:
    from chaos.simulate import params

    try:
        params.load(value)
    except InputErrors as error:
        for text in error.errors:
            yield ("params",), text
    except UsageError as error:
        yield ("params",), error.message


def _workload(value: Any) -> Iterator[tuple[Place, str]]:
    """Returns the section; None when it is wrong."""
    from chaos.simulate.experiment import words

    name = value.get("kind") if isinstance(value, dict) else None
    if name not in KINDS:
        yield ("workload", *(["kind"] if name is not None else [])), f"a kind is needed: {', '.join(KINDS)}"
        return None  # type: ignore[return-value]
    model = kind(name).Section
    try:
        return model.model_validate(value)  # type: ignore[no-any-return]
    except ValidationError as error:
        for problem in error.errors():
            yield ("workload", *problem["loc"]), words(model, problem)
        return None  # type: ignore[return-value]


def _faults(value: Any, topology: Any, workload: Any) -> Iterator[tuple[Place, str]]:
    try:
        faults = Faults.model_validate(value)
    except ValidationError:
        return
    most = scenario.most_failed(topology.hosts, topology.nics, faults.spread)
    if faults.failed_nics is not None and faults.failed_nics > most:
        yield ("faults", "failed_nics"), f"{most} NICs can fail here ({faults.spread}), with one left on every host"
    for index, entry in enumerate(faults.listed or ()):
        if (text := _where(entry, topology)) is not None:
            yield ("faults", "list", index, "where"), text
    if getattr(workload, "hit_at", None) is not None and not (faults.listed or faults.failed_nics):
        yield ("faults",), "workload.hit_at needs a fault: a list, or failed_nics"


def _where(entry: Any, topology: Any) -> str | None:
    """Why there is no such place; None when there is."""
    limits = {
        "nic": (topology.hosts, topology.nics),
        "port": (topology.hosts, topology.nics, topology.ports),
        "host": (topology.hosts,),
    }.get(entry.what)
    names = ("host", "nic", "port")
    if limits is None:
        return None if len(entry.where) == 1 and entry.where[0] >= 0 else f"a {entry.what} is one number"
    if entry.what == "nic" and len(entry.where) == 3:
        limits = (*limits, topology.ports)
    if len(entry.where) != len(limits):
        return f"a {entry.what} is [{', '.join(names[: len(limits)])}]"
    for name, place, limit in zip(names, entry.where, limits, strict=False):
        if not 0 <= place < limit:
            return f"{name} {place}: there are {limit}, counted from 0"
    return None


def parse_trace(text: str, name: str) -> Any:
    """A trace from its file's text; errors name the file."""
    try:
        return scenario.parse_trace(text)
    except InputErrors as error:
        raise UsageError("; ".join(error.errors)) from error
    except UsageError as error:
        raise UsageError(f"{name}: {error.message}") from error
