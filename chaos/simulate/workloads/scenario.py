"""What a kind of workload is given to run: a point made ready, and a trace made ready. Nothing here knows of kinds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from chaos.simulate.workloads import cells
from chaos.simulate.workloads.sections import FaultEntry, Faults

if TYPE_CHECKING:
    from chaos.simulate.cluster.topology import Topology
    from chaos.simulate.core.solver import Solver
    from chaos.simulate.faults.timeline import Interval, State
    from chaos.simulate.faults.trace import Fault, Trace
    from chaos.simulate.params import Params

DAY_S = 86_400.0
SOLVERS_KEPT = 8


@dataclass(frozen=True)
class Work:
    """A point made ready. Solvers remember what they solved, so points of one topology and one process share them."""

    workload: Any
    topology: Topology
    params: Params
    solver: Solver


@dataclass(frozen=True)
class Scenario:
    """One trace made ready: the same for every arm."""

    number: int
    trace: Trace
    intervals: Sequence[Interval]
    seed: int
    """Of everything else that is drawn, such as requests."""


@dataclass(frozen=True)
class Result:
    """One arm's figures of one trace. `tallies` are counts that add up over traces, nested by name."""

    values: Mapping[str, float | None]
    tallies: Mapping[str, Any] | None = None


def work_of(workload: Any, topology: Mapping[str, Any], params: Mapping[str, Any]) -> Work:
    """A point made ready."""
    solver, loaded, values = _solver(json.dumps(topology, sort_keys=True), json.dumps(params, sort_keys=True))
    return Work(workload, loaded, values, solver)


@lru_cache(maxsize=SOLVERS_KEPT)
def _solver(topology: str, params: str) -> tuple[Solver, Topology, Params]:
    from chaos.simulate import params as parameters
    from chaos.simulate.cluster import topology_files as topologies
    from chaos.simulate.core.solver import Solver

    loaded = topologies.load(json.loads(topology))
    values = parameters.load(json.loads(params), loaded.costs_found)
    return Solver(loaded, values), loaded, values


def scenario(faults: Faults, work: Work, seed: int, number: int, text: str | None = None) -> Scenario:
    """Trace `number` of an experiment; `text` is the trace file's, where the file names one."""
    from chaos.simulate.faults.timeline import timeline

    trace = trace_of(faults, work, cells.seed_of(seed, number), text)
    return Scenario(number, trace, timeline(trace, work.topology), cells.seed_of(seed, number, cells.SERVICE))


def trace_of(faults: Faults, work: Work, seed: int, text: str | None = None) -> Trace:
    """Drawn with the seed, or what the file holds."""
    from chaos.simulate.faults import trace

    if text is not None:
        return trace.parse(text, "the trace")
    if faults.rates is not None:
        from chaos.simulate.faults import generators

        return generators.generate(work.topology, work.params, days=faults.days, seed=seed, rates=faults.rates)
    if faults.listed is not None:
        return trace.listed([fault_of(entry, faults.days) for entry in faults.listed], faults.days, work.topology.name)
    drawn = failed_nics(work.topology, faults, seed) if faults.failed_nics else ()
    return trace.Trace(seed, faults.days, work.topology.name, tuple(drawn))


def fault_of(entry: FaultEntry, days: float) -> Fault:
    from chaos.simulate.faults.trace import Fault

    lasts_s = days * DAY_S - entry.t_s if entry.duration_s is None else entry.duration_s
    return Fault(entry.t_s, lasts_s, entry.kind, entry.what, entry.where, entry.factor, silent=entry.silent)


def failed_nics(topology: Topology, faults: Faults, seed: int) -> list[Fault]:
    """So many NICs cut from the beginning to the end. No host loses its last one."""
    from numpy.random import default_rng

    from chaos.simulate.faults.trace import Fault

    chosen = _choose(topology.hosts, topology.nics, int(faults.failed_nics or 0), faults.spread, default_rng(seed))
    lasts_s = faults.days * DAY_S
    return [Fault(0.0, lasts_s, "cut", "nic", (host, nic), 0.0, "failed_nics") for host, nic in chosen]


def most_failed(hosts: int, nics: int, spread: str) -> int:
    """How many NICs can fail with every host keeping one."""
    return {"any": hosts * (nics - 1), "hosts": hosts if nics > 1 else 0, "one_host": nics - 1}[spread]


def _choose(hosts: int, nics: int, count: int, spread: str, random: Any) -> list[tuple[int, int]]:
    if spread == "one_host":
        host = int(random.integers(hosts))
        return [(host, int(nic)) for nic in random.permutation(nics)[:count]]
    if spread == "hosts":
        return [(int(host), int(random.integers(nics))) for host in random.permutation(hosts)[:count]]
    left = [nics - 1] * hosts
    found: list[tuple[int, int]] = []
    for place in random.permutation(hosts * nics).tolist():
        host, nic = divmod(place, nics)
        if len(found) < count and left[host]:
            left[host] -= 1
            found.append((host, nic))
    return found


def capacities(topology: Topology, state: State) -> list[tuple[float, ...]]:
    """What every host's NICs have left, by host."""
    nodes: list[tuple[float, ...]] = [(1.0,) * topology.nics] * topology.hosts
    for host, left in state:
        nodes[host] = left
    return nodes
