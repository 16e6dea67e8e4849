"""Workload `job`: a training job of days with checkpoints: what is kept, what is lost, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.simulate.jobs import job as jobs
from chaos.simulate.jobs.job import Job
from chaos.simulate.training import models, spread
from chaos.simulate.training.prepared import Prepared
from chaos.simulate.training.spread import problems
from chaos.simulate.workloads.figures import JOB as FIGURES
from chaos.simulate.workloads.scenario import Result, Scenario, Work
from chaos.simulate.workloads.sections import Job as Section

__all__ = ["DRAWN", "FIGURES", "Section", "derive", "problems", "ready", "run"]
DRAWN = ("effective_training_time", "goodput", "gpu_hours_saved", "cost_saved_usd", "restarts")
BASELINE = "stock"
Values = list[float | None]


def _job(work: Work) -> Job:
    section = work.workload
    return Job(
        models.model(section.model), spread.layout_of(section, work.topology), work.topology, section.spares,
        section.checkpoint_interval_s, section.checkpoint_write_s,
    )  # fmt: skip


def ready(work: Work, scenario: Scenario) -> tuple[Job, Prepared]:
    """What is the same for all arms."""
    job = _job(work)
    return job, jobs.prepared(job, scenario.intervals, work.solver, work.params)


def run(work: Work, arm: str, scenario: Scenario, shared: tuple[Job, Prepared]) -> Result:
    """One arm over one trace."""
    job, prepared = shared
    found = jobs.simulate(job, arm, prepared, work.solver, work.params)
    lost_s = found.slow_s + found.stalls_s + found.lost_s + found.down_s
    values: dict[str, float | None] = {
        "goodput": found.goodput,
        "effective_training_time": found.effective_training_time,
        "overhead": lost_s / found.progress_s if found.progress_s else None,
        "restarts": float(found.restarts),
        "stalls_s": found.stalls_s,
        "lost_s": found.lost_s + found.down_s,
        "gpu_hours_lost": found.gpu_hours_lost,
    }
    return Result(values, {"by_kind": found.by_kind})


def derive(arms: Mapping[str, dict[str, Values]], params: Any) -> None:
    """What each arm saves over stock NCCL, trace by trace, and what that is worth."""
    if BASELINE not in arms:
        return
    usd = getattr(params, "gpu_hour_usd", None)
    stock = arms[BASELINE]["gpu_hours_lost"]
    for name, figures in arms.items():
        if name == BASELINE:
            continue
        saved = [_less(theirs, ours) for theirs, ours in zip(stock, figures["gpu_hours_lost"], strict=True)]
        figures["gpu_hours_saved"] = saved
        if usd is not None:
            figures["cost_saved_usd"] = [None if hours is None else hours * float(usd.value) for hours in saved]


def _less(theirs: float | None, ours: float | None) -> float | None:
    return None if theirs is None or ours is None else theirs - ours
