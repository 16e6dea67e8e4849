"""Timelines: they tile the time, and say of any moment what looking at every fault says."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.simulate.cluster.topology import Topology, at_tor, tor_of
from chaos.simulate.faults.timeline import timeline
from chaos.simulate.faults.trace import Fault, Trace
from harness.errors import InputErrors
from tests.unit import sim_faults

DAY_S = 86400.0


def one(of: Topology, *faults: Fault, days: float = 1.0) -> Trace:
    return Trace(0, days, of.name, faults)


@pytest.mark.parametrize("of", sim_faults.ALL, ids=lambda of: of.name)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_intervals_tile_the_time_and_say_what_brute_force_says(of: Topology, data: st.DataObject) -> None:
    trace = data.draw(sim_faults.traces(of))
    intervals = timeline(trace, of)
    assert intervals[0].start_s == 0
    assert intervals[-1].end_s == trace.days * DAY_S
    assert all(one.end_s == other.start_s for one, other in pairwise(intervals))
    assert all(interval.start_s < interval.end_s for interval in intervals)
    for interval in intervals:
        middle = (interval.start_s + interval.end_s) / 2
        for moment in (interval.start_s, min(middle, math.nextafter(interval.end_s, 0))):
            hosts, fabric = sim_faults.left_at(trace, of, moment)
            assert dict(interval.state) == hosts
            assert interval.fabric == pytest.approx(fabric)
        assert [host for host, _ in interval.state] == sorted(dict(interval.state))
    begun = [fault for interval in intervals for fault in interval.onset]
    assert begun == [fault for fault in trace.faults if fault.t_s < trace.days * DAY_S]
    assert all(fault.t_s == interval.start_s for interval in intervals for fault in interval.onset)


def test_a_port_is_half_of_its_nic_and_a_tor_takes_all_at_it() -> None:
    of = sim_faults.DUAL
    tor = tor_of(of, 2, 1, 1)
    trace = one(of, Fault(1, 5, "cut", "port", (0, 1, 0)), Fault(2, 1, "cut", "tor", (tor,)))
    states = [interval.state for interval in timeline(trace, of)]
    half = (1.0, 0.5)
    assert states == [(), ((0, half),), ((0, half), (2, half), (3, half)), ((0, half),), ()]
    assert at_tor(of, tor) == [(2, 1, 1), (3, 1, 1)]


def test_the_worse_of_two_faults_counts_and_its_end_brings_back_the_other() -> None:
    of = sim_faults.SMALL
    slow, cut = Fault(0, 10, "degraded", "nic", (0, 0), 0.5), Fault(4, 2, "cut", "port", (0, 0, 0))
    found = [(interval.start_s, interval.state) for interval in timeline(one(of, slow, cut), of)]
    assert found == [(0, ((0, (0.5, 1.0)),)), (4, ((0, (0.0, 1.0)),)), (6, ((0, (0.5, 1.0)),)), (10, ())]


def test_an_end_behind_a_worse_fault_makes_no_interval() -> None:
    of = sim_faults.SMALL
    trace = one(of, Fault(0, 10, "cut", "nic", (0, 0)), Fault(1, 2, "degraded", "nic", (0, 0), 0.5))
    assert [interval.start_s for interval in timeline(trace, of)] == [0, 1, 10]


def test_a_host_that_is_cut_off_is_a_state_and_two_spines_of_four_leave_half() -> None:
    of = sim_faults.SMALL
    trace = one(
        of,
        Fault(1, 1, "cut", "host", (3,)),
        Fault(3, 9, "cut", "spine", (0,)),
        Fault(4, 2, "cut", "spine", (1, 2)),
        Fault(5, 2, "cut", "spine", (1, 3)),
    )
    intervals = timeline(trace, of)
    assert intervals[1].state == ((3, (0.0, 0.0)),)
    assert [(interval.start_s, interval.fabric) for interval in intervals[3:]] == [
        (3, 0.75),
        (4, 0.5),
        (5, 0.5),
        (7, 0.75),
        (12, 1.0),
    ]


def test_faults_at_places_that_are_not_there_are_all_named() -> None:
    of = sim_faults.SMALL
    trace = one(
        of, Fault(0, 1, "cut", "nic", (4, 0)), Fault(1, 1, "cut", "nic", (3, 1)), Fault(2, 1, "cut", "tor", (4,))
    )
    with pytest.raises(InputErrors) as caught:
        timeline(trace, of)
    assert [error.split(":")[0] for error in caught.value.errors] == ["fault 0 (nic [4, 0])", "fault 2 (tor [4])"]
