"""Costs from all-reduces that were timed: least squares of relative errors, with the planner itself as the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.errors import UsageError
from harness.schedules.costs.measured import Measured
from harness.schedules.costs.model import Costs, Fitted, Source
from harness.schedules.planner import AlgorithmCost, NcclMachine, Nic, Node, Plan, Request, plan

FEWEST_NODES = 3
"""NCCL's table, as the planner has it, is that of three nodes and more."""
FEWEST_COUNTS = 2
ALGORITHMS = {"ring": "ring", "tree": "tree", "nvlstree": "nvls_tree"}
PULL = 0.02
"""Towards the profile: a value that is e times the profile's counts as much as an error of so much in one row."""
STEP, MOST_STEP, ROUNDS, CLOSE = 0.02, 1.0, 12, 1e-4
DETERMINED = 0.1
"""What a value must do to the rows' errors to be called fitted, in the same unit."""
Values = dict[str, float]


@dataclass(frozen=True)
class Nodes:
    """What all nodes have, which rows do not say."""

    nics: int
    rate_gbit: float


@dataclass(frozen=True)
class Found:
    """The costs, and of each row that was used how far the model is off, relative to what was measured."""

    costs: Costs
    errors: tuple[tuple[Measured, float], ...]
    left_out: tuple[str, ...]


def fit(rows: Sequence[Measured], base: Costs, nodes: Nodes, name: str, source: str) -> Found:
    """What differs from `base` is what the rows determine. UsageError where these are too few.

    The planner's times are straight lines in every cost but an efficiency, so a few steps of Gauss and Newton do."""
    used, left_out = _usable(rows)
    model = _Model(used, base, nodes)
    prior = model.values(base)
    if not prior:
        raise UsageError("the rows determine no costs of this profile", "give rows of ring, tree or NVLSTree")
    try:
        x, jacobian = _solved(model, prior)
    except UsageError as error:  # the planner takes no such values; with those of `base` it has just planned
        raise UsageError(
            f"the rows do not fit nodes with {nodes.nics} NICs of {nodes.rate_gbit:g} Gbit/s: {error.message}",
            "is it what --nics and --rate say? if NCCL_ALGO was set, say it with --algorithm",
        ) from error
    moved = {key: value * float(np.exp(by)) for (key, value), by in zip(prior.items(), x, strict=True)}
    fitted = tuple(key for key, column in zip(prior, jacobian.T, strict=True) if np.linalg.norm(column) > DETERMINED)
    kept = {key: moved[key] if key in fitted else value for key, value in prior.items()}
    costs = model.with_values(kept)
    errors = model.errors(kept)
    about = Fitted(
        len(used), tuple(sorted({row.nodes for row in used})), float(np.mean(np.abs(errors))),
        float(np.max(np.abs(errors))), fitted,
    )  # fmt: skip
    sources = {**base.sources, **{key: Source("measured", source) for key in fitted}}
    made = replace(costs, name=name, title=f"{base.title}; fitted", sources=sources, fitted=about)
    return Found(made, tuple(zip(used, map(float, errors), strict=True)), left_out)


def _usable(rows: Sequence[Measured]) -> tuple[list[Measured], tuple[str, ...]]:
    used = [row for row in rows if row.nodes >= FEWEST_NODES]
    few = sorted({row.nodes for row in rows if row.nodes < FEWEST_NODES})
    left_out = tuple(f"rows of {count} nodes: NCCL counts otherwise there" for count in few)
    counts = {row.nodes for row in used}
    if len(counts) < FEWEST_COUNTS:
        told = ", ".join(map(str, sorted({row.nodes for row in rows}))) or "none"
        raise UsageError(
            f"rows of {FEWEST_COUNTS} node counts from {FEWEST_NODES} nodes on are needed to tell hops from bytes; "
            f"there are of {told}",
            "run all_reduce_perf on another number of nodes, for example a quarter of them",
        )
    return used, left_out


def _solved(model: _Model, prior: Values) -> tuple[Any, Any]:
    """Logarithms of what to multiply `prior` with, and what each does to the errors."""
    keys = list(prior)
    x = np.zeros(len(keys))

    def errors(at: Any) -> Any:
        return model.errors({key: prior[key] * float(np.exp(by)) for key, by in zip(keys, at, strict=True)})

    for _ in range(ROUNDS):
        now = errors(x)
        jacobian = np.stack([(errors(x + STEP * unit) - now) / STEP for unit in np.eye(len(keys))], axis=1)
        left = np.concatenate([jacobian, PULL * np.eye(len(keys))])
        step = np.linalg.lstsq(left, -np.concatenate([now, PULL * x]), rcond=None)[0]
        step = np.clip(step, -MOST_STEP, MOST_STEP)
        x = x + step
        if np.max(np.abs(step)) < CLOSE:
            break
    return x, jacobian


class _Model:
    """Times of the rows as the planner has them with some costs."""

    def __init__(self, rows: Sequence[Measured], base: Costs, nodes: Nodes) -> None:
        self._rows, self._base, self._nodes = rows, base, nodes
        plans = [self._plan(base, row) for row in rows]
        self._ways = [_way(row, plan) for row, plan in zip(rows, plans, strict=True)]

    def values(self, costs: Costs) -> Values:
        """Those that have to do with the rows, as `costs` has them."""
        if costs.nccl is None:
            found = {f"cost.{key}": costs.complete[key] for key in ("hop_us", "ring_efficiency")}
            return {key: value for key, value in found.items() if value > 0}
        out: Values = {}
        for way, key in ALGORITHMS.items():
            if any(each.partition("/")[0] == way for each in self._ways):
                cost: AlgorithmCost | None = getattr(costs.nccl, key)
                told = {} if cost is None else {name: value for name, value in vars(cost).items() if value}
                out |= {f"nccl.{key}.{name}": float(value) for name, value in told.items()}
        return out

    def with_values(self, values: Mapping[str, float]) -> Costs:
        cost: dict[str, float] = {**self._base.cost}  # type: ignore[dict-item]
        parts: dict[str, Values] = {}
        for key, value in values.items():
            head, _, name = key.rpartition(".")
            if head == "cost":
                cost[name] = min(1.0, value) if name.endswith("efficiency") else value
            else:
                parts.setdefault(head.rpartition(".")[2], {})[name] = value
        nccl = self._base.nccl
        if nccl is not None:
            nccl = _machine(nccl, parts)
            cost |= _of_chains(parts)
        rounded = {name: _rounded(value) for name, value in cost.items()}
        return replace(self._base, cost=rounded, nccl=nccl)  # type: ignore[arg-type]

    def errors(self, values: Mapping[str, float]) -> Any:
        costs = self.with_values(values)
        pairs = zip(self._rows, self._ways, strict=True)
        return np.array([_time_us(self._plan(costs, row), way) / row.us - 1 for row, way in pairs])

    def _plan(self, costs: Costs, row: Measured) -> Plan:
        nics = tuple(Nic(str(nic), self._nodes.rate_gbit) for nic in range(self._nodes.nics))
        nodes = tuple(
            Node(str(node), tuple(range(node * row.gpus, (node + 1) * row.gpus)), nics) for node in range(row.nodes)
        )
        return plan(Request(nodes, row.bytes, **costs.values))


def _machine(nccl: NcclMachine, parts: Mapping[str, Values]) -> NcclMachine:
    changed = {
        key: replace(
            getattr(nccl, key) or AlgorithmCost(), **{name: _rounded(value) for name, value in some.items()}
        )
        for key, some in parts.items()
    }  # fmt: skip
    return replace(nccl, **changed)  # type: ignore[arg-type]


def _of_chains(parts: Mapping[str, Values]) -> Values:
    """Chains run on NCCL's tree kernel: its hops are theirs, and a ring's where no tree was timed."""
    found = parts.get("tree") or parts.get("ring") or {}
    return {name: found[name] for name in ("base_us", "hop_us", "local_hop_us") if name in found}


def _way(row: Measured, made: Plan) -> str:
    """The baseline that a row is one of: as it says, else what NCCL would choose. Without NCCL a ring."""
    if not made.baselines:
        return "ring"
    names = [each.name for each in made.baselines]
    if row.way in names:
        return row.way
    fits = [each for each in made.baselines if each.name.partition("/")[0] == row.way] if row.way else []
    if fits:
        return min(fits, key=lambda each: each.healthy_us).name
    return made.nccl_runs or names[0]


def _time_us(made: Plan, way: str) -> float:
    if not made.baselines:
        return made.healthy_us
    return next(each.healthy_us for each in made.baselines if each.name == way)


def _rounded(value: float) -> float:
    return float(f"{value:.5g}") if isinstance(value, float) else value
