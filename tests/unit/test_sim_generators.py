"""Generated faults: their rates, their streams, and how long it takes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from math import exp, sqrt
from pathlib import Path

import pytest

from chaos.simulate import params
from chaos.simulate.cluster import topology_files as topologies
from chaos.simulate.faults import generators, timeline
from chaos.simulate.faults.processes import PROCESSES
from chaos.simulate.faults.trace import Fault, Trace
from harness.errors import InputErrors
from tests.unit import sim_faults

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from simulated import kinds

K1 = topologies.load({"name": "k1", "hosts": 128, "fabric": {"pod": 32}})
K16 = topologies.load({"name": "k16", "hosts": 2048, "fabric": {"pod": 128, "spines": 64}})
SHIPPED = params.load()
MANY = {"nic_tor": 9, "tor": 9, "card": 9, "black_hole": 9, "spine": 9, "uplink": 5, "host": 9, "flap": 5, "slow": 9}
"""So many a month and element, that a small cluster has some of each."""


def by_process(trace: Trace) -> dict[str, list[Fault]]:
    found: dict[str, list[Fault]] = {name: [] for name in PROCESSES}
    for fault in trace.faults:
        found[fault.process].append(fault)
    return found


def make(seed: int = 1, rates: generators.Rates = "published", days: float = 30, index: int = 0) -> Trace:
    return generators.generate(K1, SHIPPED, days=days, seed=seed, rates=rates, index=index)


def test_the_same_seed_gives_the_same_trace_and_another_another() -> None:
    assert make() == make()
    assert make(seed=2) != make()
    assert make(index=1) != make()
    assert dict(make().streams) == generators.streams(1)
    assert len(set(generators.streams(1).values()) | set(generators.streams(1, 1).values())) == 2 * len(PROCESSES)


@pytest.mark.parametrize("name", PROCESSES)
def test_the_rate_of_one_process_leaves_the_draws_of_the_others_alone(name: str) -> None:
    shares = {"below_rate": 0.3, "lemon": 0.3}

    def drawn(more: dict[str, float]) -> dict[str, list[Fault]]:
        rates = {**MANY, **shares, **more}
        return by_process(generators.generate(sim_faults.SMALL, SHIPPED, days=30, seed=1, rates=rates))

    before, after = drawn({}), drawn({name: 1.0 if name in shares else 90})
    assert after[name] != before[name]
    assert {key: value for key, value in after.items() if key != name} == {
        key: value for key, value in before.items() if key != name
    }


@pytest.mark.parametrize("of", sim_faults.ALL, ids=lambda of: of.name)
def test_faults_are_where_the_topology_has_something(of: topologies.Topology) -> None:
    rates = {**MANY, "below_rate": 0.9, "lemon": 0.9}
    trace = generators.generate(of, SHIPPED, days=30, seed=3, rates=rates)
    assert all(by_process(trace).values())
    assert not timeline.misplaced(trace, of)
    times = [fault.t_s for fault in trace.faults]
    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] < 30 * 86400
    assert all(fault.silent == (fault.process == "black_hole") for fault in trace.faults)
    assert all((fault.factor > 0) == (fault.kind == "degraded") for fault in trace.faults)


@pytest.mark.parametrize(("name", "elements"), [("nic_tor", 16384), ("tor", 128), ("card", 16384), ("slow", 16384)])
def test_faults_come_as_often_as_their_rate_says(name: str, elements: int) -> None:
    rates = {"only": [name], name: 5 / 128}
    counts = [
        len(generators.generate(K16, SHIPPED, days=30, seed=5, rates=rates, index=index).faults) for index in range(3)
    ]
    expected = 3 * elements * 5 / 128
    assert abs(sum(counts) - expected) < 4 * sqrt(expected)


def test_something_is_down_for_long_as_often_as_llama_3_lost_a_switch_or_cable_or_a_nic() -> None:
    """35 and 7 in 54 days on 16,384 GPUs: what the flaps' rate and length were chosen for. Clusters count once."""
    down: set[tuple[int, ...]] = set()
    for index in range(4):
        rates = {"only": ["nic_tor", "flap", "lemon", "black_hole", "tor", "card"]}
        trace = generators.generate(K16, SHIPPED, days=54, seed=11, rates=rates, index=index)
        down |= {(index, *fault.where) for fault in trace.faults if fault.duration_s > 7}
    assert len(down) / 4 == pytest.approx(42, rel=0.2)


def test_flaps_come_in_clusters_one_after_the_other() -> None:
    trace = make(rates={"only": ["flap"]}, days=90)
    at: dict[tuple[int, ...], list[Fault]] = {}
    for fault in trace.faults:
        at.setdefault(fault.where, []).append(fault)
    assert len(trace.faults) / len(at) > 3
    assert all(one.end_s <= other.t_s for some in at.values() for one, other in pairwise(some))


def test_slow_nics_are_slow_for_24_minutes_on_average() -> None:
    """The mean of the log-normal, of which the median is shipped."""
    found = SHIPPED
    mean_s = found.slow_s.value * exp(found.slow_sigma.value**2 / 2)
    assert mean_s == pytest.approx(24 * 60, rel=0.01)


def test_lemons_fail_again_and_again() -> None:
    trace = make(rates={"only": ["lemon"], "lemon": 0.05, "lemon_per_month": 20})
    hosts = {fault.where for fault in trace.faults}
    assert 0 < len(hosts) < 20 < len(trace.faults)


def test_bad_rates_are_all_told() -> None:
    with pytest.raises(InputErrors) as caught:
        make(rates={"nic_tr": 1, "flap": -1, "only": ["spins"]})
    told = caught.value.errors
    assert len(told) == 3
    assert "nic_tor" in told[0] and "rates.flap" in told[1] and "no such process: spins" in told[2]
    assert generators.rate_problems("often")
    assert not generators.rate_problems({"slow_sigma": 1, "only": ["slow"]})


def calls(work: Callable[[], object]) -> int:
    """Python functions that it calls: what its time is made of, whatever else the machine does."""
    count = 0

    def heard(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    work()
    before = sys.getprofile()
    sys.setprofile(heard)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def test_a_months_faults_are_drawn_by_the_array() -> None:
    """And not host by host; how long it takes: benchmarks/tool_times.py."""
    months = [generators.generate(of, SHIPPED, days=30, seed=1) for of in (K1, K16)]
    made = [
        calls(lambda of=of: generators.generate(of, SHIPPED, days=30, seed=1))  # type: ignore[misc]
        for of in (K1, K16)
    ]
    faults = [len(month.faults) for month in months]
    assert made[1] - made[0] < 20 * (faults[1] - faults[0])


def test_a_timeline_takes_a_few_steps_a_fault() -> None:
    short, long = make(days=60), make(days=240)
    assert len(long.faults) > 800
    steps = [calls(lambda trace=trace: timeline.timeline(trace, K1)) for trace in (short, long)]  # type: ignore[misc]
    assert steps[1] - steps[0] < 100 * (len(long.faults) - len(short.faults))


def test_published_kinds_name_processes_and_their_shares_add_up() -> None:
    found = kinds.published()
    by_source: dict[str, float] = {}
    for kind in found:
        if kind.share is not None:
            by_source[kind.source] = by_source.get(kind.source, 0.0) + kind.share
    assert len(by_source) == 2
    assert all(total == pytest.approx(1) for total in by_source.values())
    assert {kind.process for kind in found} >= set(PROCESSES) - {"lemon", "host"}
