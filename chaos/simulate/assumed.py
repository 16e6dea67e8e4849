"""How far a figure goes over what is assumed: with a third of it, and with three times as much.

One way for all: benchmarks of docs/results ask `span`, shipped experiments have the same values as an axis of the name
AXIS, and reports put the range of that axis in brackets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isnan
from typing import NamedTuple

from chaos.simulate.params import Param, Params

AXIS = "assumed_rates"
THIRD, THREE_TIMES, SHIPPED = "a third", "three times", "as shipped"
FACTORS: Mapping[str, float] = {THIRD: 1 / 3, THREE_TIMES: 3.0}
Changes = Mapping[str, float]
Group = tuple[str, ...]

OVERLAPS: Group = ("dp_overlap", "tp_overlap", "pp_overlap")
"""Of training: what is not hidden is taken a third and three times."""
REACTIONS: Group = ("exclusion_detect_s", "exclusion_replan_s")
RESTARTS: Group = ("worker_start_s", "worker_detect_s", "weight_load_GBps")
"""Of serving: how long a worker takes to come back."""
RESETS = ("lemon_s",)
"""Repairs by another name."""


class Span(NamedTuple):
    """`value`: as shipped."""

    low: float
    value: float
    high: float


def rates(params: Params) -> Group:
    """How often things fail, as far as that is assumed."""
    return tuple(name for name, each in params.items() if name.endswith("_per_month") and _counts(each))


def repairs(params: Params) -> Group:
    """How long faults last until somebody repairs them, as far as that is assumed."""
    timed = (name for name in params if name.endswith("_repair_s") or name in RESETS)
    return tuple(name for name in timed if _counts(params[name]))


def _counts(param: Param) -> bool:
    """Nothing that is switched off."""
    return param.basis == "assumed" and param.value > 0


def scaled(params: Params, names: Sequence[str], factor: float) -> dict[str, float]:
    """Parameters times a factor: of a share that is hidden, the rest; of a rate that loads, the time."""
    return {name: _scaled(name, params[name], factor) for name in names}


def _scaled(name: str, param: Param, factor: float) -> float:
    if name in OVERLAPS:
        return max(0.0, 1 - (1 - param.value) * factor)
    return param.value / factor if name.endswith("_GBps") else param.value * factor


def variants(params: Params, *groups: Group) -> Iterator[dict[str, float]]:
    """Each group by itself, and all of them together, with a third and with three times as much."""
    together = tuple(name for group in groups for name in group)
    for names in dict.fromkeys((*groups, together)):
        for factor in FACTORS.values():
            yield scaled(params, names, factor)


def spans(figures: Sequence[float], others: Sequence[Sequence[float]]) -> list[Span]:
    """Of each figure as shipped, its range with those of variants or other seeds."""
    return [span(value, [other[place] for other in others]) for place, value in enumerate(figures)]


def span(value: float, others: Sequence[float]) -> Span:
    """A figure as shipped, with how low and how high it gets; what is no number does not count."""
    known = [each for each in (value, *others) if not isnan(each)]
    return Span(min(known, default=value), value, max(known, default=value))


def over(measure: Callable[[Changes], Sequence[float]], params: Params, *groups: Group) -> list[Span]:
    """Figures as shipped, with their ranges over what is assumed."""
    return spans(measure({}), [measure(changes) for changes in variants(params, *groups)])
