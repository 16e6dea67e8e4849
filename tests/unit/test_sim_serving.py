"""Simulated serving: nothing is lost, nobody is served before their turn, and arms do what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest
from sim_double import Fault, Machines, Solver, fault, intervals, params

from chaos.simulate.serving.llms import llm
from chaos.simulate.serving.load import MIXES, Length, draw
from chaos.simulate.serving.pace import Paces
from chaos.simulate.serving.result import ServingResult, overhead, recovery_s
from chaos.simulate.serving.service import Service
from chaos.simulate.serving.simulation import simulate
from harness.errors import InputErrors, UsageError

TWO, THREE, FOUR = Machines(2), Machines(3), Machines(4)
WIDE: dict[str, Any] = {"llm": llm("llama-3.1-70b"), "tp": 16, "rate": 4.0, "requests": 400}
CUT = (fault(30.0, 7200.0),)
ARMS = ("stock", "upstream", "exclusion", "kv_replication", "migrate", "balance", "allreduce", "optcc")
LAYOUTS: dict[str, dict[str, Any]] = {
    "one host": {"llm": llm("llama-3.1-70b"), "tp": 8, "instances": 2, "rate": 6.0},
    "part of a host": {"llm": llm("llama-3.1-8b"), "tp": 2, "instances": 8, "rate": 30.0},
    "two hosts": {"llm": llm("llama-3.1-405b"), "tp": 16, "rate": 1.0},
    "stages": {"llm": llm("llama-3.1-405b"), "tp": 8, "pp": 2, "rate": 1.0},
    "apart": {"llm": llm("llama-3.1-70b"), "tp": 8, "instances": 4, "prefills": 2, "rate": 8.0},
}


def service(topology: Machines = TWO, **changed: Any) -> Service:
    return Service(**{"topology": topology, "requests": 300, **WIDE, **changed})


def run(of: Service, arm: str, faults: Sequence[Fault] = (), *, seed: int = 1, **changed: float) -> ServingResult:
    values = params(**changed)
    lasting = intervals(faults, of.topology) if faults else ()
    return simulate(of, arm, lasting, Solver(of.topology), values, seed=seed)


def numbers(found: ServingResult) -> list[list[float]]:
    return [found.requests[name].tolist() for name in ("first_s", "finish_s", "gap_s")]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("arm", ARMS)
def test_requests_are_conserved_and_times_in_order(layout: str, arm: str) -> None:
    faults = (fault(20.0, 40.0), fault(90.0, 300.0, what="host", where=(1,)), fault(100.0, 5.0, where=(2, 3)))
    found = run(service(FOUR, **{"requests": 300, **LAYOUTS[layout]}), arm, faults)
    assert found.arrived == 300 == found.completed + found.in_flight + found.rejected
    assert found.in_flight == 0
    data = found.requests
    done = np.isfinite(data["finish_s"])
    assert (data["first_s"] > data["arrival_s"]).all()
    assert (data["finish_s"] >= data["first_s"])[done].all()
    tokens = np.maximum(data["output"] - 1, 1)
    assert (data["gap_s"] * tokens >= (data["finish_s"] - data["first_s"]) * (1 - 1e-9))[done].all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_without_faults_all_arms_are_alike_but_for_replication(layout: str) -> None:
    of = service(FOUR, **{"requests": 200, **LAYOUTS[layout]})
    stock = run(of, "stock")
    assert all(numbers(run(of, arm)) == numbers(stock) for arm in ARMS if arm != "kv_replication")
    streamed = overhead(run(of, "kv_replication"), stock, "tpot_ms")
    assert 0.01 < streamed < 0.05


def test_our_library_costs_what_it_always_does_of_communication() -> None:
    ours, stock = (run(service(), arm, healthy_overhead=0.1) for arm in ("balance", "stock"))
    assert 0 < overhead(ours, stock, "tpot_ms") < 0.1


def test_a_first_token_takes_the_prefill_at_least_and_a_lone_request_just_that() -> None:
    of, values = service(rate=0.01, requests=50), params()
    found = simulate(of, "stock", (), Solver(TWO), values, seed=3)
    pace = Paces(of, Solver(TWO), values).pace("stock", ((1.0,) * 8,) * 2)
    assert pace is not None
    for prompt, ttft_s in zip(
        found.requests["prompt"], found.requests["first_s"] - found.requests["arrival_s"], strict=True
    ):
        pieces = [min(2048, int(prompt) - at) for at in range(0, int(prompt), 2048)]
        at, needs_s = 0, 0.0
        for piece in pieces:
            needs_s += pace.step_s(piece, piece * at + piece * (piece + 1) / 2, at + piece)
            at += piece
        assert ttft_s >= needs_s * (1 - 1e-9)
        assert ttft_s == pytest.approx(needs_s, rel=0.2)


@pytest.mark.parametrize("changed", [LAYOUTS["two hosts"], {**LAYOUTS["apart"], "instances": 3, "prefills": 1}])
def test_first_come_first_served(changed: dict[str, Any]) -> None:
    """First tokens come in the order of arrival, where one instance does all prefilling."""
    found = run(service(FOUR, **{**changed, "requests": 300, "rate": 3.0}), "stock")
    assert (np.diff(found.requests["first_s"]) >= 0).all()


def test_the_same_seed_gives_the_same_and_another_another() -> None:
    one, same, other = (run(service(), "balance", CUT, seed=seed) for seed in (5, 5, 6))
    assert numbers(one) == numbers(same)
    assert one.seeds == same.seeds != other.seeds
    assert numbers(one) != numbers(other)


def test_nics_do_not_matter_where_nothing_crosses_hosts() -> None:
    of = service(**LAYOUTS["one host"])
    for arm in ARMS[:3] + ARMS[4:]:
        assert numbers(run(of, arm, CUT)) == numbers(run(of, "stock"))


def test_stock_loses_what_is_in_flight_and_our_modes_do_not() -> None:
    healthy = run(service(), "stock")
    stock, ours = run(service(), "stock", CUT), run(service(), "balance", CUT)
    values = params()
    weights_s = llm("llama-3.1-70b").weight_bytes / 2 / (values.weight_load_GBps.value * 1e9)
    start_s = values.worker_detect_s.value + values.worker_start_s.value
    down_s = values.stock_tolerance_s.value + start_s + weights_s
    assert list(stock.outages_s) == pytest.approx([down_s])
    assert stock.restarts == 1 and stock.redone_tokens > 1000
    assert list(ours.outages_s) == pytest.approx([0.1])
    assert (ours.restarts, ours.redone_tokens) == (0, 0)
    assert overhead(stock, healthy) > 10 * overhead(ours, healthy) > 0
    assert stock.gap_ms.most > stock.outages_s[0] * 1e3
    assert ours.gap_ms.most < healthy.gap_ms.most * 1.2 + 100


def test_replication_keeps_what_is_done() -> None:
    kept, stock = run(service(), "kv_replication", CUT), run(service(), "stock", CUT)
    assert kept.restarts == 1 and kept.redone_tokens == 0 and kept.moved_bytes > 0
    assert kept.outages_s[0] == pytest.approx(stock.outages_s[0], rel=0.02)
    assert kept.latency_s.mean < stock.latency_s.mean
    assert kept.gap_ms.most == pytest.approx(kept.outages_s[0] * 1e3, rel=0.02)


def test_a_short_flap_is_sat_out() -> None:
    flap = (fault(30.0, 2.0),)
    stock = run(service(), "stock", flap)
    assert (stock.restarts, stock.outages_s) == (0, (2.0,))
    assert run(service(), "kv_replication", flap).outages_s == (2.0,)
    assert list(run(service(), "balance", flap).outages_s) == pytest.approx([0.1])


def test_a_spare_makes_whole_what_a_restart_leaves_slow() -> None:
    alone, spare = (run(service(topology), "stock", CUT) for topology in (TWO, THREE))
    assert alone.outages_s == spare.outages_s
    assert overhead(alone, spare, "tpot_ms") > 0.02


def test_exclusion_sends_requests_to_who_is_left_and_restarts_where_nobody_is() -> None:
    of = service(FOUR, instances=2, rate=2.0)
    found = run(of, "exclusion", (fault(30.0, 300.0),))
    assert found.completed == found.arrived and list(found.outages_s) == pytest.approx([302.0])
    assert found.latency_s.p99 < 200
    assert run(service(), "exclusion", CUT).restarts == 1


def test_a_host_without_any_nic_waits_for_one_and_for_good_if_none_comes() -> None:
    gone = (fault(30.0, 600.0, what="host", where=(0,)),)
    assert run(service(), "balance", gone).outages_s[0] > 599 - 30
    forever = (fault(30.0, 86400.0, what="host", where=(0,)),)
    found = run(service(), "stock", forever)
    assert found.in_flight > 0 and found.completed + found.in_flight == found.arrived
    assert found.outages_s == (inf,)
    healthy = run(service(), "stock")
    assert overhead(found, healthy) == inf == recovery_s(found, healthy, 30.0)


def test_recovery_is_the_outage_and_what_it_heaped_up() -> None:
    healthy = run(service(requests=2000), "stock")
    stock, ours = (run(service(requests=2000), arm, CUT) for arm in ("stock", "allreduce"))
    assert recovery_s(healthy, healthy, 30.0) == 0
    assert recovery_s(stock, healthy, 30.0) > stock.outages_s[0]
    assert recovery_s(ours, healthy, 30.0) == pytest.approx(0.1)


def test_who_finds_a_long_queue_or_no_room_is_rejected() -> None:
    found = run(service(rate=100.0, queue=5), "stock")
    assert found.rejected > 0 and found.completed == found.arrived - found.rejected
    huge = run(service(prompt=Length(4_000_000, most=4_000_000), requests=3), "stock")
    assert (huge.rejected, huge.completed) == (3, 0)


def test_slower_nics_take_as_much_longer_as_they_should() -> None:
    """Half of all NICs' rate doubles communication over them, and nothing else, with the doubles' stock."""
    of, values = service(), params()
    paces = Paces(of, Solver(TWO), values)
    whole, half = (paces.pace("stock", ((1.0,) * 8, left)) for left in ((1.0,) * 8, (0.5,) * 8))
    assert whole is not None and half is not None
    assert half.fixed_s(512) == pytest.approx(2 * whole.fixed_s(512))
    assert half.step_s(512, 1e5, 1e5) - whole.step_s(512, 1e5, 1e5) == pytest.approx(whole.fixed_s(512))


def test_published_latencies_to_which_the_roofline_is_fitted() -> None:
    """vLLM's benchmark: 8 requests of 32 + 128 tokens on H100s."""
    for name, tp, published_s in (("llama-3.1-8b", 1, 0.998), ("llama-3.1-70b", 4, 2.444)):
        of = Service(llm(name), TWO, tp=tp, requests=8, rate=inf, prompt=Length(32), output=Length(128))
        assert run(of, "stock").wall_s == pytest.approx(published_s, rel=0.05), name


def test_models_and_mixes() -> None:
    assert llm("llama-3.1-70b").kv_bytes == 327_680
    assert llm("opt-66b").kv_bytes == 2 * 64 * 9216 * 2
    for mix in MIXES.values():
        drawn = draw(20_000, 1.0, mix.prompt, mix.output, 1)
        assert np.median(drawn.prompt) == pytest.approx(mix.prompt.median, rel=0.03)
        assert np.median(drawn.output) == pytest.approx(mix.output.median, rel=0.1)
        assert np.diff(drawn.arrival_s).mean() == pytest.approx(1.0, rel=0.03)


def test_all_that_is_wrong_is_told_at_once() -> None:
    wrong = service(tp=12, instances=5, prefills=9, budget=100, rate=0.0)
    with pytest.raises(InputErrors) as caught:
        run(wrong, "stock")
    assert [error.partition(":")[0] for error in caught.value.errors] == [
        "rate",
        "tp",
        "instances",
        "prefills",
        "budget",
    ]
    with pytest.raises(InputErrors, match="do not hold the 812 GB"):
        run(replace(service(), llm=llm("llama-3.1-405b"), tp=8), "stock")
    with pytest.raises(UsageError):
        llm("gpt-1")
