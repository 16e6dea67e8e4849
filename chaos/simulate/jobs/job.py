"""A training job of days, with checkpoints, under a trace of network faults: what is kept, what is lost, and to what.

The wall clock is divided without rest: progress, slowness, stalls, checkpoint writes, work rolled back, downtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from chaos.simulate.cluster.arms import arm
from chaos.simulate.jobs.rates import Rates, blows, by_kind
from chaos.simulate.jobs.restarts import Life, Restarts
from chaos.simulate.training.iteration import Training
from chaos.simulate.training.layout import Layout
from chaos.simulate.training.models import Model
from chaos.simulate.training.prepared import Prepared, prepare


@dataclass(frozen=True, slots=True)
class Job:
    """`spares`: hosts that can stand in for broken ones. None: of an interval or a write, the parameters' values."""

    model: Model
    layout: Layout
    topology: Any
    spares: int = 2
    checkpoint_interval_s: float | None = None
    checkpoint_write_s: float | None = None


@dataclass(frozen=True, slots=True)
class JobResult:
    """`progress_s`: seconds of healthy training that are kept. The parts add up to `wall_s`.

    `goodput`: progress / wall. `effective_training_time`: the share of the wall clock that went into training that is
    kept, at whatever speed (Llama 3, section 3.3.4: "time spent on useful training over the elapsed time").
    `gpu_hours_lost`: to everything but checkpoint writes. `by_kind`: onsets by how the arm took them."""

    arm: str
    wall_s: float
    progress_s: float
    slow_s: float
    stalls_s: float
    checkpoints_s: float
    lost_s: float
    down_s: float
    waited_s: float
    restarts: int
    stalls: int
    spares_used: int
    gpu_hours_lost: float
    by_kind: Mapping[str, Mapping[str, int]]

    @property
    def goodput(self) -> float:
        return self.progress_s / self.wall_s

    @property
    def effective_training_time(self) -> float:
        return (self.progress_s + self.slow_s) / self.wall_s


@dataclass(slots=True)
class Known:
    """What a job's simulations share: its training, and each arm's rates."""

    training: Training
    rates: dict[str, Rates]


_KNOWN: WeakKeyDictionary[Any, dict[tuple[Model, Layout], Known]] = WeakKeyDictionary()


def _known(job: Job, solver: Any, params: Any) -> Known:
    """Made once for a solver, which is of one topology and one set of parameters."""
    known = _KNOWN.setdefault(solver, {})
    key = (job.model, job.layout)
    if key not in known:
        known[key] = Known(Training(job.model, job.layout, job.topology, solver, params), {})
    return known[key]


def training(job: Job, solver: Any, params: Any) -> Training:
    """The one that the job's simulations ask, with all that it remembers."""
    return _known(job, solver, params).training


def prepared(job: Job, intervals: Sequence[Any], solver: Any, params: Any) -> Prepared:
    """For several arms over the same intervals: the work that is the same for each."""
    return prepare(intervals, training(job, solver, params).keys)


def simulate(job: Job, name: str, intervals: Sequence[Any] | Prepared, solver: Any, params: Any) -> JobResult:
    """One arm over one trace's intervals (chaos.simulate.faults.timeline), or what `prepared` made of them."""
    known, of = _known(job, solver, params), arm(name)
    keys = known.training.keys
    ready = intervals if isinstance(intervals, Prepared) else prepare(intervals, keys)
    if name not in known.rates:
        known.rates[name] = Rates(known.training, name)
    felt = blows(of, ready, params, known.training.iteration(name).total_s)
    walk = Restarts(of, ready, felt, known.rates[name], keys=keys, spares=job.spares)
    life = walk.live(params.restart_s.value)
    stalls = int(np.count_nonzero(felt.stalls_s[~felt.fatal]))
    parts = _parts(job, life, params)
    lost_s = parts["slow_s"] + parts["stalls_s"] + parts["lost_s"] + life.down_s
    return JobResult(
        arm=name,
        wall_s=ready.wall_s,
        **parts,
        down_s=life.down_s,
        waited_s=life.waited_s,
        restarts=life.restarts,
        stalls=stalls,
        spares_used=life.spares_used,
        gpu_hours_lost=lost_s * job.layout.gpus / 3600,
        by_kind=by_kind(ready, felt.outcomes),
    )


def _parts(job: Job, life: Life, params: Any) -> dict[str, float]:
    """What the time in which the job was up went into. A restart goes back to the last checkpoint of its span."""
    interval_s = job.checkpoint_interval_s or float(params.checkpoint_interval_s.value)
    write_s = float(params.checkpoint_write_s.value) if job.checkpoint_write_s is None else job.checkpoint_write_s
    useful = interval_s / (interval_s + write_s)
    parts = dict.fromkeys(("progress_s", "slow_s", "stalls_s", "checkpoints_s", "lost_s"), 0.0)
    for start_s, end_s, died, course in life.spans:
        kept_s = start_s + (end_s - start_s) // (interval_s + write_s) * (interval_s + write_s) if died else end_s
        progress, working_s = course.between(start_s, kept_s)
        parts["progress_s"] += progress * useful
        parts["slow_s"] += (working_s - progress) * useful
        parts["checkpoints_s"] += working_s * (1 - useful)
        parts["stalls_s"] += kept_s - start_s - working_s
        parts["lost_s"] += end_s - kept_s
    return parts
