"""Days-long jobs under faults that are written down, with a solver of formulas."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from sim_double import DAY_S, Fault, Interval, Machines, Solver, fault, intervals, params

from chaos.simulate.cluster.arms import ARMS
from chaos.simulate.jobs.job import Job, JobResult, prepared, simulate
from chaos.simulate.training.iteration import Training
from chaos.simulate.training.layout import default_layout
from chaos.simulate.training.models import MODELS
from chaos.simulate.training.statekey import rounded

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from simulated.survival import prepared as alone
from simulated.survival import survived_share, table

TOPOLOGY = Machines(128)
MODEL = MODELS["gpt-175b"]
PARAMS = params()
USEFUL = 1800 / 1810


def run(name: str, *faults: Fault, spares: int = 2, days: float = 1.0) -> JobResult:
    job = Job(MODEL, default_layout(MODEL, 1024), TOPOLOGY, spares=spares)
    return simulate(job, name, intervals(faults, TOPOLOGY, days), Solver(TOPOLOGY), PARAMS)


def parts(result: JobResult) -> float:
    kept = result.progress_s + result.slow_s
    return kept + result.stalls_s + result.checkpoints_s + result.lost_s + result.down_s


@pytest.mark.parametrize("name", ARMS)
def test_without_faults_only_checkpoints_cost(name: str) -> None:
    result = run(name)
    assert result.goodput == pytest.approx(USEFUL)
    assert (result.restarts, result.gpu_hours_lost) == (0, 0)


@pytest.mark.parametrize("name", ARMS)
def test_the_wall_clock_is_divided_without_rest(name: str) -> None:
    faults = (
        fault(1000, 3, kind="flap"),
        fault(5000, 40000, where=(3, 2)),
        fault(20000, 9, kind="flap", where=(9, 1)),
        fault(20003, 9000, kind="degraded", where=(20, 1), factor=0.5),
        fault(50000, 7200, what="host", where=(77,)),
        fault(85000, 9000, where=(5, 5)),
    )
    result = run(name, *faults)
    assert parts(result) == pytest.approx(DAY_S)
    assert result.wall_s == DAY_S
    assert 0 < result.goodput <= result.effective_training_time <= USEFUL


def test_stock_goes_back_to_its_checkpoint_and_pays_the_restart() -> None:
    result = run("stock", fault(5000, 600))
    assert result.restarts == 1
    assert result.lost_s == 5000 - 2 * 1810
    assert result.down_s == 4080
    assert result.progress_s == pytest.approx((DAY_S - 4080 - 1380) * USEFUL)
    assert result.gpu_hours_lost == pytest.approx((4080 + 1380) * 1024 / 3600)


def test_stock_sits_out_a_short_flap() -> None:
    result = run("stock", fault(5000, 5, kind="flap", process="flap"))
    assert result.restarts == 0
    assert result.stalls_s == pytest.approx(5)
    assert result.by_kind == {"flap": {"survived": 0, "degraded": 1, "restart": 0}}


def test_stalls_that_overlap_in_time_do_not_add_up() -> None:
    result = run("stock", fault(5000, 5), fault(5002, 5, where=(9, 0)))
    assert result.stalls_s == pytest.approx(7)
    assert result.stalls == 2


def test_our_stall_is_the_parameters_and_the_rest_is_slowness() -> None:
    result = run("balance", fault(5000, 3600))
    assert result.stalls_s == pytest.approx(0.1)
    assert 0 < result.slow_s < 3600 * 0.1
    assert result.restarts == 0


def test_a_spare_stands_in_until_the_repair() -> None:
    """A NIC that is gone for the rest of the day; its host flaps again, which is nobody's affair any more."""
    faults = (fault(5000, 80000), fault(30000, 100, where=(0, 5)))
    result = run("stock", *faults)
    assert (result.restarts, result.spares_used, result.waited_s) == (1, 1, 0)


def test_without_spares_the_job_waits_for_the_repair() -> None:
    result = run("stock", fault(5000, 20000), spares=0)
    assert result.waited_s == pytest.approx(20000 - 4080)
    assert result.down_s == pytest.approx(20000)


def test_spares_come_back_when_hosts_are_repaired() -> None:
    faults = (fault(5000, 10000), fault(30000, 10000, where=(7, 0)))
    result = run("stock", *faults, spares=1)
    assert (result.restarts, result.spares_used, result.waited_s) == (2, 2, 0)
    both = (fault(5000, 50000), fault(30000, 40000, where=(7, 0)))
    assert run("stock", *both, spares=1).waited_s == pytest.approx(55000 - 34080)


def test_hosts_that_can_be_run_with_are_not_waited_for() -> None:
    """A port of two is gone: without a spare, stock NCCL begins again on the other one."""
    cut = fault(5000, 20000, what="port", where=(3, 1, 0))
    half = (1.0, 0.5) + (1.0,) * 6
    spans = [Interval(0, 5000, (), ()), Interval(5000, 25000, ((3, half),), (cut,)), Interval(25000, DAY_S, (), ())]
    found = {}
    for spares in (0, 1):
        job = Job(MODEL, default_layout(MODEL, 1024), TOPOLOGY, spares=spares)
        found[spares] = simulate(job, "stock", spans, Solver(TOPOLOGY), PARAMS)
    assert (found[0].restarts, found[0].waited_s, found[0].spares_used) == (1, 0, 0)
    assert found[0].slow_s > 0
    assert (found[1].restarts, found[1].slow_s, found[1].spares_used) == (1, 0, 1)


def test_a_job_that_is_down_does_not_die() -> None:
    result = run("stock", fault(5000, 600), fault(6000, 600, where=(7, 0)))
    assert result.restarts == 1


def test_a_restart_at_the_end_ends_with_the_trace() -> None:
    result = run("stock", fault(DAY_S - 1000, 5000))
    assert result.down_s == pytest.approx(1000)
    assert parts(result) == pytest.approx(DAY_S)


def test_a_host_without_nics_ends_the_job_for_every_arm() -> None:
    for name in ARMS:
        assert run(name, fault(5000, 600, what="host", where=(3,), process="host")).restarts == 1


def test_exclusion_loses_an_iteration_and_replans_twice() -> None:
    job = Job(MODEL, default_layout(MODEL, 1024), TOPOLOGY)
    solver = Solver(TOPOLOGY)
    trace = prepared(job, intervals([fault(5000, 3600)], TOPOLOGY), solver, PARAMS)
    result = simulate(job, "exclusion", trace, solver, PARAMS)
    healthy_s = Training(MODEL, job.layout, TOPOLOGY, solver, PARAMS).iteration("exclusion").total_s
    assert result.stalls_s == pytest.approx(7 + 2 + healthy_s + 2)
    assert result.slow_s == pytest.approx(3600 * (1 - 15 / 16), rel=0.2)


def test_arms_share_what_is_prepared() -> None:
    job, solver = Job(MODEL, default_layout(MODEL, 1024), TOPOLOGY), Solver(TOPOLOGY)
    faults = [fault(5000, 600), fault(9000, 3000, where=(4, 1))]
    trace = prepared(job, intervals(faults, TOPOLOGY), solver, PARAMS)
    for name in ARMS:
        alone_again = simulate(job, name, intervals(faults, TOPOLOGY), Solver(TOPOLOGY), PARAMS)
        assert simulate(job, name, trace, solver, PARAMS) == alone_again


def test_states_that_are_alike_are_solved_once() -> None:
    solver = Solver(TOPOLOGY)
    job = Job(MODEL, default_layout(MODEL, 1024), TOPOLOGY)
    faults = [fault(1000.0 * index, 500, where=(index, index % 8)) for index in range(1, 80)]
    simulate(job, "allreduce", intervals(faults, TOPOLOGY), solver, PARAMS)
    assert len(solver.calls) == 3  # stock and ours with all whole, ours with a NIC gone


def test_coverage_is_counted_from_rules_and_faults() -> None:
    faults = [fault(1000.0 * index, 2, kind="flap", process="flap") for index in range(1, 17)]
    faults += [fault(30000, 600, process="nic_tor"), fault(40000, 600, process="nic_tor")]
    faults += [fault(50000, 600, what="host", where=(3,), process="host"), fault(60000, 9, process="flap")]
    rows = table([alone(intervals(faults, TOPOLOGY), 8)], PARAMS, ["stock", "balance"])
    assert [(row.kind, row.rate_per_month) for row in rows] == [("flap", 510), ("nic_tor", 60), ("host", 30)]
    assert rows[0].share == pytest.approx(17 / 20)
    assert rows[0].arms["stock"] == pytest.approx({"survived": 0, "degraded": 16 / 17, "restart": 1 / 17})
    assert survived_share(rows, "stock") == pytest.approx(16 / 20)
    assert survived_share(rows, "balance") == pytest.approx(19 / 20)
    assert survived_share(rows, "balance", without=["flap"]) == pytest.approx(2 / 3)


def test_spines_matter_only_when_none_is_left() -> None:
    job, solver = Job(MODEL, default_layout(MODEL, 1024), TOPOLOGY), Solver(TOPOLOGY)
    for fabric, restarts, waited_s in ((0.5, 0, 0.0), (0.0, 1, 10000 - 4080)):
        cut = fault(1000, 10000, what="spine", where=(0,), process="spine")
        spans = [
            Interval(0, 1000, (), ()),
            Interval(1000, 11000, (), (cut,), fabric),
            Interval(11000, DAY_S, (), ()),
        ]
        result = simulate(job, "balance", spans, solver, PARAMS)
        assert (result.restarts, result.waited_s) == (restarts, waited_s)
        assert result.by_kind["spine"]["restart"] == restarts


def test_a_black_hole_takes_longer_to_notice() -> None:
    told, silent = run("balance", fault(5000, 600)), run("balance", fault(5000, 600, silent=True))
    assert told.stalls_s == pytest.approx(0.1)
    assert silent.stalls_s == pytest.approx(PARAMS.stall_silent_ms.value / 1000)


def test_what_our_library_costs_while_nothing_is_broken_is_counted() -> None:
    job, solver, costly = (
        Job(MODEL, default_layout(MODEL, 1024), TOPOLOGY),
        Solver(TOPOLOGY),
        params(healthy_overhead=0.1),
    )
    spans = intervals([], TOPOLOGY)
    found = {name: simulate(job, name, spans, solver, costly) for name in ("stock", "balance")}
    assert found["stock"].slow_s == 0
    assert 0 < found["balance"].slow_s < DAY_S * 0.1


def test_slower_nics_are_rounded_so_that_few_states_are_solved() -> None:
    slow = [fault(500.0 * index, 400, kind="degraded", factor=0.3 + index / 250) for index in range(1, 100)]
    solver = Solver(TOPOLOGY)
    job = Job(MODEL, default_layout(MODEL, 1024), TOPOLOGY)
    simulate(job, "balance", intervals(slow, TOPOLOGY), solver, PARAMS)
    assert len(solver.calls) == 2 + 9
    assert [rounded(share) for share in (0, 0.01, 0.52, 0.99, 1)] == pytest.approx([0, 0.05, 0.5, 0.95, 1])
