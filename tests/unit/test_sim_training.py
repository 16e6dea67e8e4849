"""Layouts, arms and iterations, with a solver of formulas."""

from __future__ import annotations

import sys
from math import inf
from pathlib import Path
from typing import Any

import pytest
from sim_double import Machines, Solver, Took, params

from chaos.simulate.cluster.arms import ARMS, Left, arm, rule, runs_with, traffic_share
from chaos.simulate.cluster.topology_files import load
from chaos.simulate.training.iteration import Training
from chaos.simulate.training.layout import Layout, check, default_layout, placement
from chaos.simulate.training.models import MODELS, model
from chaos.simulate.training.statekey import canonical
from harness.errors import InputErrors, UsageError

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from simulated.overhead import curve, failed_nics, ratio
from simulated.published import Cluster, compared
from simulated.published_kinds import judged, outcome, shares, survives

GPT = MODELS["gpt-175b"]
LEFT_7 = (1.0,) * 7 + (0.0,)


def training(gpus: int = 1024, name: str = "gpt-175b", **changed: float) -> Training:
    topology = Machines(gpus // 8)
    return Training(MODELS[name], default_layout(MODELS[name], gpus), topology, Solver(topology), params(**changed))


@pytest.mark.parametrize(("name", "billions"), [("gpt-7b", 6.7), ("gpt-13b", 13.0), ("gpt-175b", 174.6)])
def test_a_models_size_is_the_one_that_it_is_named_for(name: str, billions: float) -> None:
    assert MODELS[name].parameters == pytest.approx(billions * 1e9, rel=0.02)


def test_flops_are_the_published_formula() -> None:
    layers, hidden, sequence, batch = 96, 12288, 2048, 1536
    rest = 1 + sequence / (6 * hidden) + 51200 / (12 * layers * hidden)
    assert GPT.flops(batch) == pytest.approx(72 * batch * sequence * layers * hidden**2 * rest, rel=1e-3)


def test_an_unknown_model_names_those_there_are() -> None:
    with pytest.raises(UsageError, match="gpt-9b"):
        model("gpt-9b")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("gpus", [64, 128, 512, 1024, 4096, 16384])
def test_default_layouts_hold_at_every_size(name: str, gpus: int) -> None:
    layout = default_layout(MODELS[name], gpus)
    check(layout, MODELS[name], Machines(gpus // 8))
    assert layout.gpus == gpus


def test_all_that_is_wrong_with_a_layout_is_told_at_once() -> None:
    with pytest.raises(InputErrors) as raised:
        check(Layout(dp=3, tp=5, pp=7, batch=10), GPT, Machines(128))
    assert len(raised.value.errors) == 6
    assert any("105 GPUs, the topology has 128 x 8 = 1024" in text for text in raised.value.errors)


def test_groups_of_a_stage_are_hosts_in_a_row() -> None:
    where = placement(Layout(dp=16, tp=8, pp=8, batch=1536), Machines(128))
    assert (where.nodes, where.ranks, where.groups) == (16, 1, 8)
    assert [where.group(host) for host in (0, 15, 16, 127)] == [0, 0, 1, 7]
    assert where.replica(17, 0.9) == where.replica(1, 0.0) == 1


def test_tensor_parallelism_over_two_hosts_makes_two_groups_a_stage() -> None:
    where = placement(Layout(dp=8, tp=16, pp=1, batch=1536), Machines(16))
    assert (where.nodes, where.ranks, where.groups) == (8, 1, 8)
    assert [where.group(host) for host in (0, 1, 2)] == [0, 1, 0]
    assert [where.replica(host, 0.5) for host in (0, 1, 2)] == [0, 0, 1]


def test_ranks_of_a_host_that_share_a_group() -> None:
    where = placement(Layout(dp=32, tp=2, pp=1, batch=1024), Machines(8))
    assert (where.nodes, where.ranks, where.groups) == (8, 4, 2)
    assert [where.replica(1, nic / 8) for nic in (0, 1, 2, 7)] == [4, 4, 5, 7]


def test_nothing_is_sent_over_nics_inside_one_host() -> None:
    topology = Machines(1)
    solver = Solver(topology)
    made = Training(MODELS["gpt-7b"], Layout(8, 1, 1, 1024), topology, solver, params()).iteration("stock")
    assert made.dp_s > 0
    assert not solver.calls


def test_the_parts_of_an_iteration_add_up() -> None:
    made = training().iteration("balance", failed_nics(Machines(128), 1, "host"))
    assert made.total_s == pytest.approx(made.compute_s + made.bubble_s + made.exposed_comm_s)
    assert 0.3 < made.mfu < 0.52


def test_the_bubble_is_the_published_share() -> None:
    made, layout = training(), default_layout(GPT, 1024)
    found = made.iteration("stock")
    assert found.bubble_s / (found.compute_s + found.tp_s) == pytest.approx(7 / (3 * layout.microbatches))


def test_exposed_gradients_are_what_overlap_and_window_leave() -> None:
    hidden, open_ = training(dp_overlap=1.0, gradient_bytes=1), training(dp_overlap=0.0)
    assert hidden.iteration("stock").exposed_dp_s == 0
    assert open_.iteration("stock").exposed_dp_s == open_.iteration("stock").dp_s
    long = training(dp_overlap=1.0).iteration("stock")
    window_s = long.compute_s / default_layout(GPT, 1024).microbatches * 2 / 3 * (1 + 2 * 8) / 3
    assert long.exposed_dp_s == pytest.approx(long.dp_s - window_s)


def test_the_slowest_group_decides() -> None:
    made = training()
    one = made.iteration("balance", ((0, LEFT_7),))
    same = made.iteration("balance", ((0, LEFT_7), (16, LEFT_7)))
    worse = made.iteration("balance", ((0, LEFT_7), (16, (0.0,) * 4 + (1.0,) * 4)))
    assert one.total_s == same.total_s < worse.total_s


@pytest.mark.parametrize(("bandwidth", "floored"), [(0.81, False), (0.999, False), (1.12, True)])
def test_an_overhead_is_floored_only_where_the_bandwidth_is_no_less(bandwidth: float, floored: bool) -> None:
    """Bandwidth of the hit groups over that of healthy ones. 0.81 of it is never an overhead of nought."""
    made = training()
    whole_s = made.iteration("stock").dp_s
    real = made.solver.collective

    def collective(*asked: Any, **more: int) -> Took:
        took = real(*asked, **more)
        return Took(whole_s * 1e6 / bandwidth) if min(map(min, asked[2])) == 0 else took

    made.solver.collective = collective
    state = ((0, LEFT_7),)
    found = made.iteration("allreduce", state)
    assert found.floored is floored
    assert found.dp_s == pytest.approx(whole_s * max(1, 1 / bandwidth))
    overhead, least = made.overhead("allreduce", state), 0.1 * whole_s * (1 / bandwidth - 1)
    if floored:
        pp_s = found.pp_s - made.iteration("stock").pp_s  # stages send over the same NICs
        assert overhead == pytest.approx(pp_s / made.iteration("stock").total_s)
    else:
        assert overhead >= least * 0.999 / made.iteration("stock").total_s > 0


def test_which_host_and_which_nic_does_not_matter_but_a_shared_rail_does() -> None:
    made = training()
    solver: Solver = made.solver
    for host, nic in ((0, 0), (5, 3), (90, 7)):
        made.iteration("balance", ((host, tuple(0.0 if index == nic else 1.0 for index in range(8))),))
    asked = len(solver.calls)
    assert asked == 2  # whole, and with one NIC gone
    first, other = (0.0,) + (1.0,) * 7, (1.0, 0.0) + (1.0,) * 6
    assert canonical([first, first]) != canonical([first, other])
    assert canonical([first, other]) == canonical([other, first]) == canonical([LEFT_7, first])


def test_arms_in_order() -> None:
    made = training(256)
    state = failed_nics(Machines(32), 1, "host")
    overheads = [made.overhead(name, state) for name in ("optcc", "allreduce", "balance", "migrate", "exclusion")]
    assert overheads == sorted(overheads)
    assert overheads[-1] > 0.1
    assert made.overhead("stock", state) == inf


def test_a_host_without_nics_stops_every_arm_but_not_another_replica() -> None:
    made = training()
    state = failed_nics(Machines(128), 8, "host")
    stopped = {name for name in ARMS if made.iteration(name, state).total_s == inf}
    assert stopped == set(ARMS)


def test_exclusion_loses_the_replicas_of_the_gpus_at_that_nic() -> None:
    made = training(64, "gpt-7b")
    state = failed_nics(Machines(8), 2, "host")
    assert made.iteration("exclusion", state).alive == pytest.approx(62 / 64)
    model_parallel = training(128)
    assert model_parallel.iteration("exclusion", failed_nics(Machines(16), 1, "host")).alive == pytest.approx(1 / 2)


def test_sharded_optimizers_reduce_scatter_and_gather() -> None:
    topology = Machines(8)
    solver = Solver(topology)
    layout = default_layout(MODELS["gpt-7b"], 64)
    Training(MODELS["gpt-7b"], layout, topology, solver, params(), sync="sharded").iteration("balance")
    assert [call[0] for call in solver.calls] == ["reducescatter", "allgather"]


def test_tensor_parallelism_over_hosts_goes_over_nics() -> None:
    topology = Machines(16)
    solver = Solver(topology)
    made = Training(GPT, Layout(1, 16, 8, 64), topology, solver, params())
    healthy, degraded = made.iteration("balance"), made.iteration("balance", ((3, LEFT_7),))
    assert {len(call[2]) for call in solver.calls} == {2}
    assert degraded.tp_s == pytest.approx(healthy.tp_s * 8 / 7)


@pytest.mark.parametrize(
    ("name", "left", "duration_s", "expected"),
    [
        ("stock", Left.NIC, 0.5, "survived"),
        ("stock", Left.NIC, 5, "degraded"),
        ("stock", Left.NIC, 8, "restart"),
        ("stock", Left.PORT, 8, "restart"),
        ("stock", Left.SLOWER, 1e6, "survived"),
        ("upstream", Left.PORT, 1e6, "degraded"),
        ("upstream", Left.NIC, 1e6, "restart"),
        ("exclusion", Left.NIC, 1e6, "degraded"),
        ("migrate", Left.NIC, 1e6, "survived"),
        ("allreduce", Left.PORT, 1e6, "survived"),
        ("allreduce", Left.NOTHING, 5, "degraded"),
        ("allreduce", Left.NOTHING, 8, "restart"),
        ("kv_replication", Left.NIC, 8, "restart"),
    ],
)
def test_what_becomes_of_a_job(name: str, left: Left, duration_s: float, expected: str) -> None:
    assert outcome(arm(name), left, duration_s, params()) == expected


def test_nothing_survives_a_host_without_nics() -> None:
    assert {survives(of, params())[Left.NOTHING] for of in ARMS.values()} == {"restart"}


def test_a_rule_sits_out_what_is_short_and_pays_once_for_what_is_long() -> None:
    applied = rule(arm("exclusion"), Left.NIC, params(), iteration_s=10)
    assert applied.stall_s(3) == 3
    assert applied.stall_s(8) == 7 + 2 + 10


def test_traffic_shares() -> None:
    two_gone = (0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    assert traffic_share(arm("migrate"), LEFT_7) == 0.5
    assert traffic_share(arm("migrate"), two_gone) == pytest.approx(1 / 3)
    assert traffic_share(arm("balance"), two_gone) == 0.75
    assert traffic_share(arm("stock"), (0.25,) + (1.0,) * 7) == 0.25
    assert traffic_share(arm("exclusion"), two_gone) == 1
    assert not runs_with(arm("upstream"), LEFT_7)


@pytest.mark.parametrize(
    ("fabric", "ports", "tor"), [("rail", 1, Left.NIC), ("rack", 1, Left.NOTHING), ("rack", 2, Left.PORT)]
)
def test_published_kinds_are_judged_by_what_they_leave_here(fabric: str, ports: int, tor: Left) -> None:
    rows = judged(params(), load({"hosts": 4, "ports": ports, "fabric": {"kind": fabric, "pod": 4}}))
    found = {row.kind.kind: row for row in rows}
    assert found["ToR"].left is tor
    assert found["ToR"].arms["balance"] == ("restart" if tor is Left.NOTHING else "survived")
    assert found["link flap"].arms["stock"] == "survived"
    assert found["NIC"].arms == dict.fromkeys(("stock", "upstream", "kv_replication"), "restart") | dict.fromkeys(
        ("migrate", "balance", "allreduce", "optcc"), "survived"
    ) | {"exclusion": "degraded"}
    llama = next(source for source in shares(rows, "stock") if source.startswith("Llama"))
    assert (shares(rows, "stock")[llama], shares(rows, "allreduce")[llama]) == (0, 1)
    assert shares(rows, "upstream")[llama] == pytest.approx(35 / 42 if ports == 2 else 0)


def test_the_curve_grows_with_failed_nics() -> None:
    points = curve(training(256), ["balance"], range(9), "host")
    overheads = [point.overhead for point in points]
    assert overheads[0] == 0
    assert overheads == sorted(overheads)
    assert overheads[-1] == inf
    spread = curve(training(256), ["balance"], [1, 8], "hosts")
    assert spread[1].overhead == pytest.approx(spread[0].overhead)


def test_recovery_ratios() -> None:
    found = ratio(training(256), params(), "exclusion", "allreduce", duration_s=3600)
    assert found.lasting > found.incident > 1
    died = ratio(training(256), params(), "stock", "allreduce", duration_s=3600)
    ours_s = 0.1 + 3599.9 * (1 - 1 / (1 + training(256).overhead("allreduce", failed_nics(Machines(32), 1, "host"))))
    assert died.incident == pytest.approx((4080 + 900) / ours_s)


def test_published_iterations_are_met_within_the_tolerance() -> None:
    def make(cluster: Cluster) -> tuple[Machines, Solver]:
        topology = Machines(cluster.hosts, rate_gbit=cluster.rate_gbit, nvlink_GBps=cluster.nvlink_GBps)
        return topology, Solver(topology)

    rows = compared(make, lambda changed: params(**changed))
    errors = {row.run.name: row.error for row in rows}
    assert len(errors) == len(rows) == 13
    missed = {name: error for name, error in errors.items() if abs(error) > 0.1}
    assert set(missed) == {"175B, 4,608 H100"}, errors
