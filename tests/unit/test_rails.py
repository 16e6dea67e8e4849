"""What hosts that lost different NICs can still exchange; every number is worked out by hand beside it."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
from host_double import FakeHost
from hypothesis import given
from hypothesis import strategies as st

from chaos.analysis.figures import run_figures
from chaos.analysis.rails import Fabric, stretch
from chaos.analysis.rundata import read_run
from chaos.run.runner import _network
from chaos.testbed.beds import Bed
from harness.lab.topology import Topology
from harness.schemas import validate
from harness.sites.site import PlannedNic

Line = dict[str, Any]
HOSTS = ("h0", "h1", "h2")
FOUR = {host: [f"eth{place}" for place in range(4)] for host in HOSTS}
RING = {("h0", "h1"): 8.0, ("h1", "h2"): 8.0, ("h2", "h0"): 8.0}
ALL_TO_ALL = {(one, other): 4.0 for one in HOSTS for other in HOSTS if one != other}
APART = {("h1", "eth0"): 1.0, ("h2", "eth3"): 1.0}


@pytest.mark.parametrize(
    ("lost", "sent", "factor"),
    [
        ({}, RING, 1.0),
        ({("h1", "eth0"): 1.0}, RING, 4 / 3),
        (APART, RING, 2.0),  # h1 to h2: two rails of four
        ({("h1", "eth0"): 1.0, ("h2", "eth0"): 1.0}, RING, 4 / 3),  # the same rail: three of four
        ({("h1", "eth0"): 0.5, ("h2", "eth3"): 0.5}, RING, 4 / 3),  # 0.5 + 1 + 1 + 0.5 of four
        (APART, {("h1", "h0"): 8.0, ("h0", "h2"): 8.0}, 4 / 3),  # the two send each other nothing
        (APART, ALL_TO_ALL, 4 / 3),  # half of what h1 sends fits in two of four; all of it needs three
        (APART, {}, 4 / 3),  # nothing is known of who talks to whom
        ({("h1", "eth0"): 1.0, ("h1", "eth1"): 1.0, ("h2", "eth2"): 1.0}, RING, 4.0),
        ({("h1", "eth0"): 1.0, ("h1", "eth1"): 1.0, ("h2", "eth2"): 1.0, ("h2", "eth3"): 1.0}, RING, None),
        ({("h1", f"eth{place}"): 1.0 for place in range(4)}, RING, None),
        (APART, {("h1", "h1"): 8.0}, 4 / 3),  # what stays inside needs no NIC
    ],
)
def test_rails(lost: dict[tuple[str, str], float], sent: dict[tuple[str, str], float], factor: float | None) -> None:
    found = stretch(Fabric(FOUR), lost, sent)
    assert found == (None if factor is None else pytest.approx(factor))


def test_where_all_nics_see_each_other_only_the_sums_count() -> None:
    assert stretch(Fabric(FOUR, rails=False), APART, RING) == pytest.approx(4 / 3)


def test_a_port_of_a_merged_nic_is_half_of_it() -> None:
    merged = Fabric({host: ["eth0+eth1", "eth2+eth3"] for host in HOSTS})
    assert stretch(merged, {("h1", "eth0"): 1.0}, RING) == pytest.approx(2 / 1.5)
    assert stretch(merged, {("h1", "eth0"): 1.0, ("h1", "eth1"): 1.0}, RING) == pytest.approx(2.0)


def test_hosts_with_different_numbers_of_nics() -> None:
    """h1 has two of the others' four: it was slower before, too."""
    uneven = Fabric({**FOUR, "h1": ["eth0", "eth1"]})
    assert stretch(uneven, {("h1", "eth0"): 1.0}, RING) == pytest.approx(2.0)
    assert stretch(uneven, {("h2", "eth0"): 1.0}, RING) == pytest.approx(2.0)  # to h1: one of its two
    assert stretch(uneven, {("h0", "eth3"): 1.0}, RING) == pytest.approx(4 / 3)  # to h2 three of four


losses = st.dictionaries(
    st.tuples(st.sampled_from(HOSTS), st.sampled_from(FOUR["h0"])), st.floats(0.0, 0.9), max_size=6
)
sent = st.dictionaries(
    st.tuples(st.sampled_from(HOSTS), st.sampled_from(HOSTS)), st.floats(0.1, 100.0), min_size=1, max_size=9
)


@given(losses, sent)
def test_rails_never_make_a_bound_smaller(lost: dict[Any, float], flows: dict[Any, float]) -> None:
    with_rails, without = (stretch(Fabric(FOUR, rails=rails), lost, flows) for rails in (True, False))
    assert with_rails is not None and without is not None
    assert with_rails >= without - 1e-9 >= 1.0 - 2e-9


def ring(*more: Line) -> list[Line]:
    """Three hosts, four NICs each, a connection a rail from each host to the next; iterations of 100 ms, 10 chunks."""
    lines = [{"host": "controller", "event": "run_start", "t_ns": 0, "mode": 2, "wall_ns": 1}]
    for rank, host in enumerate(HOSTS):
        ends = [
            {"id": f"{way}{rail}", "peer": (rank + step) % 3, "direction": way, "channel": rail, "nic": f"eth{rail}"}
            for way, step in (("send", 1), ("recv", 2))
            for rail in range(4)
        ]
        about = {"op": "allreduce", "bytes": 40, "ranks": 3, "nics": FOUR[host], "connections": ends}
        lines.append({"host": host, "event": "bench_start", "t_ns": 1, "rank": rank, **about})
        lines += [line for index in range(10) for line in iteration(host, rank, index)]
    return [{"schema": 1, "arm": "balance", "run": 0, **line} for line in [*lines, *faults(), *more]]


def iteration(host: str, rank: int, index: int) -> list[Line]:
    start = (1 + index) * 100_000_000
    base = {"host": host, "rank": rank, "index": index, "start_ns": start, "t_ns": start + 100_000_000}
    data = [{**base, "event": "delivery", "connection": f"recv{rail}", "gaps_us": [10_000.0] * 10} for rail in range(4)]
    return [*data, {**base, "event": "iteration", "end_ns": base["t_ns"], "wrong_elements": 0}]


def faults() -> list[Line]:
    """h1 loses eth0 and h2 eth3 right after 4 iterations; both are back at the end."""
    found = []
    for host, nic in (("h1", "eth0"), ("h2", "eth3")):
        about = {"host": host, "event": "fault", "id": f"{host}-{nic}", "kind": "link_down", "nic": nic}
        for ms, phase in ((510, "injected"), (511, "active"), (1090, "reverted"), (1091, "verified")):
            found.append({**about, "phase": phase, "t_ns": ms * 1_000_000, "before_ns": ms * 1_000_000})
    return found


def bounds(lines: list[Line]) -> list[float]:
    return [fault["degraded_bound_ms"] for fault in asdict(run_figures(read_run(lines), 2, iterations=10))["faults"]]


def test_the_bound_of_two_hosts_that_share_two_rails_of_four() -> None:
    assert bounds(ring()) == [200.0, 200.0]  # not 133


def test_the_bound_where_all_nics_see_each_other() -> None:
    lines = ring()
    lines[0]["one_subnet"] = True
    assert bounds(lines) == [pytest.approx(133.3333), pytest.approx(133.3333)]
    path = {"arm": "balance", "run": 0, "schema": 1, "host": "h2", "event": "path", "t_ns": 520_000_000}
    crossed = {**path, "connection": "0", "direction": "recv", "nic": "eth0", "peer_nic": 1, "state": "active"}
    assert bounds([*ring(), crossed]) == [pytest.approx(133.3333), pytest.approx(133.3333)]
    assert bounds([*ring(), {**crossed, "peer_nic": 0}]) == [200.0, 200.0]


def test_the_bound_of_faults_that_overlap_in_part() -> None:
    """h2 has its NIC back before h1: of the four degraded iterations of h1 three were bound by both."""
    lines = ring()
    for line in lines:
        if line["event"] == "fault" and line["host"] == "h2" and line["phase"] in ("reverted", "verified"):
            line["t_ns"] = line["before_ns"] = 950 * 1_000_000
    (h1, h2) = bounds(lines)
    assert h1 == 200.0  # 200, 200, 200 and 133
    assert h2 == 200.0


def test_the_controller_tells_rates_and_that_there_are_no_rails() -> None:
    nics = [PlannedNic("h0", "eth0", "10.1.0.1", "p0"), PlannedNic("h0", "eth1", "10.2.0.1", "p1")]
    slow = {"host": "h0", "nic": "eth1", "rate_gbit": 0.2}
    bed = Bed("lab", {"h0": FakeHost("h0")}, None, nics, "10.250.0.1")
    assert _network(bed) == {"nics": {"h0": {nic.name: {"address": nic.address} for nic in nics}}}
    shape = Topology.model_validate({"hosts": 1, "nics": 2, "rate_gbit": 0.7, "overrides": [slow]})
    told = _network(replace(bed, topology=shape, devices={("h0", "eth0"): "rxe0"}))
    assert told["nics"]["h0"] == {
        "eth0": {"address": "10.1.0.1", "device": "rxe0", "rate_gbit": 0.7},
        "eth1": {"address": "10.2.0.1", "rate_gbit": 0.2},
    }
    assert "one_subnet" not in told
    flat = replace(bed, topology=shape.model_copy(update={"one_subnet": True}))
    assert _network(flat)["one_subnet"] is True
    line = {
        "schema": 1,
        "arm": "stock",
        "run": 0,
        "t_ns": 1,
        "host": "c",
        "event": "run_start",
        "mode": 0,
        "wall_ns": 1,
    }
    validate("journal", {**line, "wall_ns": 1, **_network(flat)})


def test_the_bound_where_deliveries_are_not_told() -> None:
    """As under NCCL: who sends to whom is in the `path` lines."""
    lines = [line for line in ring() if line["event"] != "delivery"]
    lines[0]["nics"] = {host: {"eth0": {"address": f"10.1.0.{n}"}} for n, host in enumerate(HOSTS, 1)}
    assert bounds(lines) == [pytest.approx(133.3333), pytest.approx(133.3333)]  # nobody says
    for place, host in enumerate(HOSTS):
        peer = f"10.1.0.{(place + 2) % 3 + 1}"
        about = {"arm": "balance", "run": 0, "schema": 1, "host": host, "event": "path", "t_ns": 2, "peer": peer}
        lines.append({**about, "connection": "1", "direction": "recv", "nic": "eth1", "state": "active"})
    assert bounds(lines) == [200.0, 200.0]
