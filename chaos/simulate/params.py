"""Parameters of the model: each with its unit, whether it was measured, published or assumed, and where.

The files of parameters/ hold them, by part: name -> {value, unit, basis, source}.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from harness.config import documents
from harness.config.words import meant, shown
from harness.errors import InputErrors

if TYPE_CHECKING:
    from harness.schedules.costs.model import Costs
    from harness.schedules.planner import NcclMachine

Basis = Literal["measured", "published", "assumed"]
CORE = "core.yaml"
UNITS = {
    "hop_us": "us",
    "local_hop_us": "us",
    "chunk_bytes": "bytes",
    "ring_efficiency": "share",
    "chain_efficiency": "share",
    "staged_efficiency": "share",
    "even_rails": "yes or no",
    "margin": "share",
}
"""Of the costs' parameters (harness/schedules/costs), those that a simulation has."""
KEYS = ("value", "unit", "basis", "source")
SHIPPED = Path(__file__).parent / "parameters"
CHANGED = "set by the user; shipped: {value:g} ({basis}, {source})"


@dataclass(frozen=True, slots=True)
class Param:
    """`source`: the paper and section, or the file of this repository."""

    value: float
    unit: str
    basis: Basis
    source: str


class Params(dict[str, Param]):
    """By name, also as attributes: `params.detect_ms.value`. `nccl`: what NCCL runs on; None: nothing is known
    of it, and all-reduces are rings."""

    nccl: NcclMachine | None = None

    def __getattr__(self, name: str) -> Param:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no parameter {name!r}; {near(name, self)}") from None


def load(overrides: Mapping[str, Any] | None = None, costs: Costs | None = None) -> Params:
    """The shipped parameters with some changed: a number, or {value, basis, source}. `costs`: what hops and bytes cost
    (harness/schedules/costs); without them hosts with NVLink and 400 Gbit/s.

    Raises InputErrors naming every unknown name (with those like it) and every value that is no number.
    """
    overrides = overrides or {}
    if errors := [f"params: {name}: {problem}" for name, problem in problems(overrides)]:
        raise InputErrors(errors)
    return changed(_with_costs(costs), overrides)


def changed(params: Params, overrides: Mapping[str, Any]) -> Params:
    """Parameters with some of them changed; `overrides` are without problems."""
    made = Params({**params, **{name: _changed(params[name], change) for name, change in overrides.items()}})
    made.nccl = params.nccl
    return made


def names(file: str) -> list[str]:
    """The parameters that one shipped file holds; core.yaml has those of costs with it."""
    more = list(UNITS) if file == CORE else []
    return [*more, *documents.mapping_of(SHIPPED / file)]


def _with_costs(costs: Costs | None) -> Params:
    """What is shipped, and the costs: one source for planner, NCCL and simulator."""
    from harness.schedules.costs import model

    costs = costs or model.load(model.NVLINK)
    values = costs.complete
    found = {name: Param(values[name], unit, *_source(costs, f"cost.{name}")) for name, unit in UNITS.items()}
    made = Params({**_shipped(), **found})
    made.nccl = costs.nccl
    return made


def _source(costs: Costs, name: str) -> tuple[Basis, str]:
    told = costs.sources.get(name)
    profile = f"costs {costs.name} ({costs.title})"
    return (told.basis, f"{profile}: {told.source}") if told else ("assumed", profile)


def problems(overrides: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(name, what is wrong with it), for files that hold overrides."""
    params = _with_costs(None)
    found = [(str(name), _problem(str(name), change, params)) for name, change in overrides.items()]
    return [(name, problem) for name, problem in found if problem]


def _problem(name: str, change: Any, known: Mapping[str, Param]) -> str:
    if name not in known:
        return f"no such parameter; {near(name, known)}"
    value: Any = change.get("value") if isinstance(change, Mapping) else change
    if type(value) not in (int, float) or not math.isfinite(value) or value < 0:
        return f"a number from 0 on is needed, not {shown(value)}"
    if isinstance(change, Mapping):
        return _words(change)
    return ""


def _words(change: Mapping[str, Any]) -> str:
    if unknown := sorted(set(map(str, change)) - set(KEYS)):
        return f"unknown key {unknown[0]!r}{meant(unknown[0], KEYS)}; known here: {', '.join(KEYS)}"
    if change.get("basis", "assumed") not in get_args(Basis):
        return f"basis is one of {', '.join(get_args(Basis))}, not {change['basis']!r}"
    wrong = [key for key in ("unit", "source") if not isinstance(change.get(key, ""), str)]
    return f"{wrong[0]} is text" if wrong else ""


def _changed(param: Param, change: Any) -> Param:
    """What a user set is assumed, unless they say where it is from."""
    if not isinstance(change, Mapping):
        change = {"value": change}
    was = CHANGED.format(value=param.value, basis=param.basis, source=param.source)
    told: dict[str, Any] = {"basis": "assumed", "source": was, **change}
    return replace(param, **{**told, "value": float(change["value"])})


def near(name: str, known: Iterable[str]) -> str:
    """What there is instead of a name that is not there."""
    alike = difflib.get_close_matches(name, [*known], n=3, cutoff=0.5)
    return f"near it: {', '.join(alike)}" if alike else f"there are {', '.join(known)}"


@cache
def _shipped() -> Mapping[str, Param]:
    found: dict[str, Param] = {}
    for file in sorted(SHIPPED.glob("*.yaml")):
        for name, values in documents.mapping_of(file).items():
            if name in found:
                raise ValueError(f"{file.name}: the parameter {name} is in another file, too")
            found[name] = Param(**{**values, "value": float(values["value"])})
    return found
