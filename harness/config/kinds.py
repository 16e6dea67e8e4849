"""The kinds of files that people write. One that is given where another is wanted is named, with what takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SIMULATED = ("collective", "job", "serving", "training")
"""Kinds of workloads that only simulations have."""
OF_SIMULATIONS = ("axes", "ratios", "references", "expect", "draw", "keep_traces", "params", "title")
OF_SIMULATED_NETWORKS = ("fabric", "ports", "nvlink_GBps")
OF_LABS = ("mtu", "one_subnet", "placement")


@dataclass(frozen=True)
class Kind:
    """`name` stands in messages; `hint` is the advice where there is no file; `use` says what takes one."""

    name: str
    hint: str
    use: str = ""


EXPERIMENT = Kind(
    "experiment",
    "give the path of a YAML file, from the folder where you are; a checkout has some in experiments/",
    "r2cc chaos run {file}",
)
CAMPAIGN = Kind(
    "campaign", "give the path of a YAML file; docs/howto/campaign.md shows one", "r2cc chaos campaign {file} --out DIR"
)
SIMULATION = Kind(
    "simulation", "give the path of a file, for example experiments/sim/overhead.yaml", "r2cc sim run {file}"
)
TOPOLOGY = Kind("lab's topology", "give the path of a YAML file, or the name of a shipped one", "r2cc lab up {file}")
SIMULATED_NETWORK = Kind(
    "simulated topology",
    "give a YAML file, for example experiments/sim/topologies/h100_1024.yaml",
    "name it in a simulation, as topology: {file}",
)
INVENTORY = Kind("inventory", "give the path of a YAML file; docs/howto/cluster.md shows one", "--inventory {file}")
SCOREBOARD = Kind(
    "scoreboard", "give the path of a YAML file; docs/results/scoreboard.yaml is ours", "r2cc results run {file}"
)
POLICY = Kind("policy", "see docs/howto/ci.md for one", "r2cc ci gate --policy {file}")


def kind_of(value: Any) -> Kind | None:
    """By keys that only one kind has; None where that is not certain."""
    if not isinstance(value, dict):
        return None
    if "workload" in value:
        return _kind_of_run(value)
    cells = value.get("cells")
    if isinstance(cells, list) and any(isinstance(cell, dict) and "run" in cell for cell in cells):
        return SCOREBOARD
    for key, kind in (("cells", CAMPAIGN), ("series", POLICY), ("hosts", INVENTORY)):
        if isinstance(value.get(key), list):
            return kind
    if "nics" in value or "rate_gbit" in value:
        found = {kind for keys, kind in ((OF_LABS, TOPOLOGY), (OF_SIMULATED_NETWORKS, SIMULATED_NETWORK))
                 if not value.keys().isdisjoint(keys)}  # fmt: skip
        return found.pop() if len(found) == 1 else None
    return None


def _kind_of_run(value: Mapping[Any, Any]) -> Kind | None:
    """An experiment's arms are a mapping and its faults a list; a simulation's are the other way round."""
    workload, arms, faults = value["workload"], value.get("arms"), value.get("faults")
    named = isinstance(workload, dict) and workload.get("kind") in SIMULATED
    simulated = named or isinstance(faults, dict) or not value.keys().isdisjoint(OF_SIMULATIONS)
    if simulated == isinstance(arms, dict):
        return None
    return SIMULATION if simulated else EXPERIMENT if isinstance(arms, dict) else None


def misplaced(value: Any, wanted: Kind, file: str) -> str:
    """What to say of a file that is surely of another kind; empty for any other."""
    found = kind_of(value)
    if found is None or found.name == wanted.name:
        return ""
    return f"this is {_a(found.name)}, not {_a(wanted.name)}: {found.use.format(file=file)}"


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
