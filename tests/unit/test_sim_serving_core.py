"""Serving on the compiled core: the papers' figures beside ours, and the workload of `r2cc sim`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos.simulate.cluster import topology_files as topologies
from chaos.simulate.core.solver import Solver
from chaos.simulate.params import load
from chaos.simulate.serving.llms import llm
from chaos.simulate.serving.pace import Paces
from chaos.simulate.serving.service import Service
from chaos.simulate.workloads import kinds, scenario
from chaos.simulate.workloads import serving as kind_serving
from chaos.simulate.workloads.sections import Faults

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from simulated import recovery

TWO = topologies.load({"name": "two", "hosts": 2, "gpus": 8, "nics": 8, "rate_gbit": 400.0, "nvlink_GBps": 450.0})
ACROSS = Service(llm("llama-3.1-405b"), TWO, tp=16, requests=900, rate=0.5)


@pytest.mark.build
def test_one_nic_of_eight_costs_below_three_per_cent_and_dejavu_tens_of_times_that() -> None:
    """R2CC, abstract: below 3 % for inference; 47 times less than DejaVu, taken as a ratio of overheads."""
    arms = ("stock", "kv_replication", "migrate", "balance", "allreduce")
    paces, cut = Paces(ACROSS, Solver(TWO, load()), load()), recovery.failure(TWO)
    later, slower = (recovery.overheads(paces, arms, cut, seed=1, of=of) for of in ("latency_s", "tpot_ms"))
    for name in ("balance", "allreduce"):
        assert 0 < slower[name] < recovery.PAPER_OVERHEAD
    assert min(later["stock"], later["kv_replication"]) > 3 * later["migrate"]
    assert later["migrate"] > later["balance"] > later["allreduce"]
    assert 15 < later["kv_replication"] / later["balance"] < 150


@pytest.mark.build
def test_what_the_ratio_depends_on() -> None:
    small = replace(ACROSS, requests=300)
    names = ("worker_start_s", "stall_ms")
    found = recovery.weights(small, lambda params: Solver(TWO, params), load(), names, seed=1)
    assert [each.name for each in found] == ["worker_start_s", "stall_ms"]
    assert found[0].doubled > found[0].halved * 1.1


def test_dejavu_s_own_figure_if_a_new_worker_starts_at_once() -> None:
    """1.91 without and 1.24 with it; when the failure came is not told."""
    at_once = load({"worker_start_s": 0})
    early, late = (recovery.one_batch(Solver, at_once, share) for share in (0.5, 0.9))
    assert early[0] < recovery.DEJAVU_RESTART < late[0]
    assert early[1] == pytest.approx(recovery.DEJAVU, abs=0.05) == late[1]


def work(**changed: Any) -> scenario.Work:
    section = {"kind": "serving", "model": "llama-3.1-405b", "tp": 16, "requests": 200, "rate": 0.5, **changed}
    return scenario.work_of(kinds.section(section), TWO.as_dict(), {})


@pytest.mark.build
def test_the_workload_gives_every_figure() -> None:
    made = work()
    faults = Faults.model_validate({"days": 1, "list": [{"t_s": 60, "what": "nic", "where": [0, 0]}]})
    trace = scenario.scenario(faults, made, 1, 0)
    shared = kind_serving.ready(made, trace)
    values = kind_serving.run(made, "balance", trace, shared).values
    assert set(values) == set(kind_serving.FIGURES)
    assert values["completed"] == 1.0 and values["recovery_s"] is not None
    assert values["recovery_s"] < 1 < (kind_serving.run(made, "stock", trace, shared).values["recovery_s"] or 0)


def test_what_is_wrong_with_a_workload_is_told_by_key() -> None:
    base = {"topology": TWO.as_dict(), "faults": {}}
    found = list(kinds.problems({**base, "workload": {"kind": "serving", "model": "llama-3.1-405b", "tp": 8}}))
    assert [place for place, _ in found] == [("workload", "tp")]
    found = list(kinds.problems({**base, "workload": {"kind": "serving", "model": "nobody"}}))
    assert found[0][0] == ("workload", "model") and "llama-3.1-70b" in found[0][1]
