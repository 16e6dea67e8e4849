"""Faults in others' formats, from files written as their documentation says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.simulate.cluster import topology_files as topologies
from chaos.simulate.faults import timeline
from chaos.simulate.faults.trace import Fault
from harness.errors import InputErrors, UsageError
from tests.unit import sim_faults

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from simulated import importers

LARGE = topologies.load({"name": "large", "hosts": 400, "nics": 4})
CONFIG = """\
TOPOLOGY_FILE mix/topology.txt {input file: topoology}
SIMULATOR_STOP_TIME 4.00 {simulation stop time}
LINK_DOWN 500000 2 5 {a b c: take down link between b and c at time a. 0 0 0 mean no link down}
"""
GRAPH = """\
8 4 8
4 5 6 7
0 4 100Gbps 0.001ms 0
1 4 100Gbps 0.001ms 0
2 5 100Gbps 0.001ms 0
3 5 100Gbps 0.001ms 0
4 6 400Gbps 0.001ms 0
4 7 400Gbps 0.001ms 0
5 6 400Gbps 0.001ms 0
5 7 400Gbps 0.001ms 0

First line: total node #, switch node #, link #
"""
ONE_NIC = topologies.load({"name": "one_nic", "hosts": 4, "nics": 1, "fabric": {"pod": 2, "spines": 2}})


def event(node: str, day: float, what: str, kind: tuple[str, str]) -> dict[str, Any]:
    fault = {"Level": "Hardware Failure", "Class": kind[0], "Desc": kind[1]}
    return {"node_id": node, "event_time": day, "event_type": f"fault_{what}", "fault_type": fault}


CABLE, SLOW, GPU = ("Parameter Plane Cable", "Link Down"), ("NIC", "NIC Link Speed low"), ("GPU", "GPU Lost")
EVENTS = [
    event("a", 1.0, "start", CABLE),
    event("b", 1.5, "start", GPU),
    event("a", 1.75, "end", CABLE),
    event("c", 2.0, "start", SLOW),
    event("d", 3.0, "end", ("NIC", "NIC Lost")),
    event("b", 4.0, "end", GPU),
]


def infinitehbd(tmp_path: Path, events: list[Any], **options: Any) -> tuple[Fault, ...]:
    file = tmp_path / "fault_trace.json"
    file.write_text(json.dumps(events, indent=4))
    found = importers.load("infinitehbd", file, LARGE, **options)
    assert not timeline.misplaced(found, LARGE)
    assert found.days == 4.0
    return found.faults


def test_events_become_faults_with_their_starts_and_ends(tmp_path: Path) -> None:
    lost, cable, slow = infinitehbd(tmp_path, EVENTS)
    assert (cable.t_s, cable.duration_s, cable.what, cable.factor) == (86400, 0.75 * 86400, "port", 0)
    assert (slow.t_s, slow.duration_s, slow.kind, slow.factor) == (2 * 86400, 2 * 86400, "degraded", 0.5)
    assert (lost.t_s, lost.duration_s, lost.what) == (0, 3 * 86400, "nic")
    assert len({fault.where[0] for fault in (lost, cable, slow)}) == 3


def test_what_is_no_network_fault_comes_only_when_asked_and_changes_nothing_else(tmp_path: Path) -> None:
    network = infinitehbd(tmp_path, EVENTS)
    everything = infinitehbd(tmp_path, EVENTS, everything=True)
    assert [fault for fault in everything if fault.what != "host"] == list(network)
    assert [fault.process for fault in everything if fault.what == "host"] == ["GPU: GPU Lost"]
    assert infinitehbd(tmp_path, EVENTS, seed=1) != network


def test_a_smaller_cluster_has_its_share(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    events = [event(f"n{number}", 1 + number / 1000, "start", CABLE) for number in range(400)]
    file.write_text(json.dumps([*events, event("n0", 4.0, "end", CABLE)]))
    of = topologies.load({"hosts": 100})
    assert len(importers.load("infinitehbd", file, of).faults) == 100


def test_every_bad_event_is_named_with_its_line(tmp_path: Path) -> None:
    bad = [EVENTS[0], {**EVENTS[1], "event_time": -1}, {**EVENTS[2], "event_type": "fault"}, {"node_id": "a"}, 3]
    with pytest.raises(InputErrors) as caught:
        infinitehbd(tmp_path, bad)
    assert len(caught.value.errors) == 4
    assert ":12: event_time" in caught.value.errors[0]
    for text, told in (("{}", "array"), ("[{", "not JSON"), (json.dumps(EVENTS)[:-1], "not whole")):
        (tmp_path / "y.json").write_text(text)
        with pytest.raises(InputErrors, match=told):
            importers.load("infinitehbd", tmp_path / "y.json", LARGE)


def hpcc(
    tmp_path: Path, config: str = CONFIG, graph: str = GRAPH, of: topologies.Topology = ONE_NIC
) -> tuple[Fault, ...]:
    (tmp_path / "mix").mkdir(exist_ok=True)
    (tmp_path / "mix/config.txt").write_text(config)
    (tmp_path / "mix/topology.txt").write_text(graph)
    return importers.load("hpcc", tmp_path / "mix/config.txt", of).faults


def test_a_link_of_a_host_goes_down_until_the_end(tmp_path: Path) -> None:
    assert hpcc(tmp_path) == (Fault(2.5, 1.5, "cut", "port", (2, 0, 0), 0.0, "LINK_DOWN"),)


def test_a_link_between_switches_is_an_uplink_and_nodes_may_be_nics(tmp_path: Path) -> None:
    assert hpcc(tmp_path, CONFIG.replace("500000 2 5", "500000 7 5"))[0].where == (1, 1)
    two = topologies.load({"hosts": 2, "nics": 2, "fabric": {"pod": 1, "spines": 2}})
    assert hpcc(tmp_path, of=two)[0].where == (1, 0, 0)


def test_no_link_down_is_an_empty_trace(tmp_path: Path) -> None:
    assert hpcc(tmp_path, CONFIG.replace("500000 2 5", "0 0 0")) == ()


@pytest.mark.parametrize(
    ("config", "graph", "told"),
    [
        (CONFIG.replace("500000 2 5", "500000 2"), GRAPH, r"config.txt:3: LINK_DOWN takes 3 numbers"),
        (CONFIG.replace("500000 2 5", "500000 2 4"), GRAPH, r"config.txt:3: the topology has no link between 2 and 4"),
        (CONFIG, GRAPH.replace("8 4 8", "8 4 9"), r"9 links are announced|a link is between two nodes"),
        (CONFIG, GRAPH.replace("8 4 8", "8 8 1 4 8 H100"), r"topology.txt:1: nodes, switches and links are needed"),
        (CONFIG, GRAPH.replace("3 5 100", "3 50 100"), r"topology.txt:6: a link is between two nodes below 8"),
        ("LINK_DOWN 0 0 0\n", GRAPH, r"SIMULATOR_STOP_TIME is missing\n.*TOPOLOGY_FILE is missing"),
    ],
)
def test_bad_configurations_are_told(tmp_path: Path, config: str, graph: str, told: str) -> None:
    with pytest.raises(InputErrors, match=told):
        hpcc(tmp_path, config, graph)


def test_a_topology_of_another_size_or_none(tmp_path: Path) -> None:
    with pytest.raises(InputErrors, match="its topology has 4 hosts, large 400 hosts or 1600 NICs"):
        hpcc(tmp_path, of=LARGE)
    (tmp_path / "mix/topology.txt").unlink()
    with pytest.raises(UsageError, match="is not there"):
        importers.load("hpcc", tmp_path / "mix/config.txt", sim_faults.SMALL)
    with pytest.raises(UsageError, match="cannot read"):
        importers.load("hpcc", tmp_path / "none.txt", sim_faults.SMALL)
