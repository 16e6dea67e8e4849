"""Traces of faults from rates, one random stream a process: changing one leaves the draws of all others alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any

import numpy as np

from chaos.simulate import params as parameters
from chaos.simulate.cluster.topology import Topology
from chaos.simulate.faults.draws import Drawn, Draws
from chaos.simulate.faults.processes import PROCESSES, RATES
from chaos.simulate.faults.trace import DAY_S, Fault, Trace
from chaos.simulate.params import Params
from harness.errors import InputErrors

ONLY = "only"
"""In `rates`: the processes that run; all others are off."""

Rates = Mapping[str, Any] | str | None


def generate(
    topology: Topology, params: Params, *, days: float, seed: int, rates: Rates = "published", index: int = 0
) -> Trace:
    """Trace `index` of `seed`. `rates`: by process or by parameter's name what differs, and `only`.

    Raises InputErrors naming every rate that cannot be used.
    """
    changed = with_rates(params, rates)
    seeds = streams(seed, index)
    faults: list[Fault] = []
    for name, (process, rate) in PROCESSES.items():
        if changed[rate].value > 0:
            draws = Draws(np.random.default_rng(seeds[name]), changed, days * DAY_S)
            faults += _faults(process(draws, topology), name)
    faults.sort(key=attrgetter("t_s"))
    return Trace(seed, days, topology.name, tuple(faults), index, tuple(seeds.items()))


def streams(seed: int, index: int = 0) -> dict[str, int]:
    """The seed of every process: of trace `index` of `seed`, whatever the others draw."""
    return {
        name: int(np.random.SeedSequence(seed, spawn_key=(index, number)).generate_state(1, np.uint64)[0] >> 12)
        for number, name in enumerate(PROCESSES)
    }


def with_rates(params: Params, rates: Rates) -> Params:
    """The parameters with an experiment's `faults.rates` put in."""
    if problems := rate_problems(rates):
        raise InputErrors([f"rates.{name}: {text}" if name else f"rates: {text}" for name, text in problems])
    if not isinstance(rates, Mapping):
        return params
    values = {RATES.get(name, name): value for name, value in rates.items() if name != ONLY}
    if ONLY in rates:
        off = {rate: 0.0 for name, rate in RATES.items() if name not in rates[ONLY]}
        values = {**off, **values}
    return parameters.changed(params, values)


def rate_problems(rates: Rates) -> list[tuple[str, str]]:
    """(name, what is wrong with it), for files that hold rates."""
    if rates is None or rates == "published":
        return []
    if not isinstance(rates, Mapping):
        return [("", f"published, or a mapping of rates; not {rates!r}")]
    known = {**RATES, **{name: name for name in parameters.names("faults.yaml")}}
    found: list[tuple[str, str]] = []
    for name, value in rates.items():
        if name == ONLY:
            found += _only_problems(value)
        elif name not in known:
            found.append((str(name), f"no such rate; {parameters.near(str(name), known)}"))
        else:
            found += [(str(name), text) for _, text in parameters.problems({known[name]: value})]
    return found


def _only_problems(value: Any) -> list[tuple[str, str]]:
    if not isinstance(value, list | tuple):
        return [(ONLY, f"a list of processes: {', '.join(PROCESSES)}")]
    wrong = [str(name) for name in value if name not in PROCESSES]
    return [(ONLY, f"no such process: {', '.join(wrong)}; there are {', '.join(PROCESSES)}")] if wrong else []


def _faults(drawn: Drawn, process: str) -> Iterator[Fault]:
    factors = [0.0] * len(drawn.t_s) if drawn.factor is None else drawn.factor.tolist()
    columns = zip(drawn.t_s.tolist(), drawn.duration_s.tolist(), map(tuple, drawn.where.tolist()), factors, strict=True)
    for t_s, lasting, where, factor in columns:
        yield Fault(t_s, lasting, drawn.kind, drawn.what, where, factor, process, drawn.silent)
