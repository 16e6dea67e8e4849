"""Workload `training`: iterations of one model, with what a trace leaves of the NICs."""

from __future__ import annotations

from math import inf
from weakref import WeakKeyDictionary

from chaos.simulate.training import models, spread
from chaos.simulate.training.iteration import Training
from chaos.simulate.training.spread import problems
from chaos.simulate.workloads.figures import TRAINING as FIGURES
from chaos.simulate.workloads.scenario import Result, Scenario, Work
from chaos.simulate.workloads.sections import Training as Section

__all__ = ["DRAWN", "FIGURES", "Section", "problems", "ready", "run"]
DRAWN = ("overhead", "exposed_comm_s")

_known: WeakKeyDictionary[object, dict[Section, Training]] = WeakKeyDictionary()


def _training(work: Work) -> Training:
    """Remembers iterations; made once for a solver and a workload."""
    known = _known.setdefault(work.solver, {})
    section = work.workload
    if section not in known:
        layout = spread.layout_of(section, work.topology)
        model = models.model(section.model)
        known[section] = Training(model, layout, work.topology, work.solver, work.params, sync=section.sync)
    return known[section]


def ready(work: Work, scenario: Scenario) -> None:
    """Nothing that arms could share."""


def run(work: Work, arm: str, scenario: Scenario, shared: None) -> Result:
    """Over the trace's time: iterations that are slower are fewer. An arm that cannot go on has no time."""
    training = _training(work)
    healthy, count, exposed_s, whole_s = training.iteration(arm), 0.0, 0.0, 0.0
    for interval in scenario.intervals:
        lasts_s = interval.end_s - interval.start_s
        found = training.iteration(arm, interval.state)
        whole_s += lasts_s
        if found.total_s < inf:
            count += lasts_s / found.total_s
            exposed_s += lasts_s / found.total_s * found.exposed_comm_s
    if not count:
        return Result({"healthy_s": healthy.total_s, "iteration_s": None, "overhead": None, "exposed_comm_s": None})
    iteration_s = whole_s / count
    tokens = training.layout.batch * training.model.sequence
    return Result(
        {
            "iteration_s": iteration_s,
            "healthy_s": healthy.total_s,
            "overhead": iteration_s / healthy.total_s - 1,
            "exposed_comm_s": exposed_s / count,
            "tokens_per_s": tokens / iteration_s,
        }
    )
