"""Places of NICs (R2CC_TOPO_FILE): from a topology's `placement` to the file's contents and the ranks' environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chaos.testbed.hostbench import unbuilt
from harness.errors import InputErrors
from harness.lab.places import places
from harness.lab.topology import SHIPPED, Topology, parse, shipped_names
from harness.schemas import dumped, problems

TWO_SWITCHES = """\
hosts: 2
nics: 3
overrides:
  - {host: h1, nic: eth2, rate_gbit: 0.25}
placement:
  - {nic: eth0, numa: 0, switch: a}
  - {nic: eth1, numa: 0, switch: a}
  - {nic: eth2, numa: 1}
  - {host: h1, nic: eth1, numa: 1, switch: b}
"""


def written(topology: Topology) -> Any:
    return json.loads(dumped(places(topology)))


def test_places_by_host_and_nic() -> None:
    near, far = {"numa": 0, "switch": "a", "rate_gbit": 1.0}, {"numa": 1, "rate_gbit": 1.0}
    assert written(parse(TWO_SWITCHES, "t.yaml")) == {
        "schema": 1,
        "hosts": {
            "h0": {"nics": {"eth0": near, "eth1": near, "eth2": far}},
            "h1": {
                "nics": {
                    "eth0": near,
                    "eth1": {"numa": 1, "switch": "b", "rate_gbit": 1.0},
                    "eth2": {**far, "rate_gbit": 0.25},
                }
            },
        },
    }


@pytest.mark.parametrize("name", shipped_names())
def test_every_shipped_topology_has_places(name: str) -> None:
    topology = Topology.load(SHIPPED / f"{name}.yaml")
    assert problems("places", written(topology)) == []


def test_what_is_not_said_is_left_out() -> None:
    assert written(parse("hosts: 1\nnics: 1\n", "t.yaml"))["hosts"] == {"h0": {"nics": {"eth0": {"rate_gbit": 1.0}}}}


@pytest.mark.parametrize(
    "value",
    [
        {"hosts": {}},
        {"schema": 2, "hosts": {}},
        {"schema": 1, "hosts": {"h0": {}}},
        {"schema": 1, "hosts": {"h0": {"nics": {"eth0": {"numa": -1}}}}},
        {"schema": 1, "hosts": {"h0": {"nics": {"eth0": {"speed": 1}}}}},
    ],
)
def test_the_schema_refuses(value: object) -> None:
    assert problems("places", value)


def test_mistakes_in_a_placement_are_found_with_their_lines() -> None:
    text = """\
hosts: 2
nics: 2
placement:
  - {nic: eth2}
  - {host: h2, nic: eth0}
  - {nic: eth0, numa: -1}
  - {nic: eth0, switch: a}
  - {nic: eth1, pci: x}
"""
    with pytest.raises(InputErrors) as caught:
        parse(text, "t.yaml")
    assert caught.value.errors == [
        "t.yaml:4: no nic 'eth2': with nics: 2 the last is eth1",
        "t.yaml:5: no host 'h2': with hosts: 2 the last is h1",
        "t.yaml:6: placement.2.numa: input should be greater than or equal to 0, not -1",
        "t.yaml:7: duplicate placement for eth0",
        "t.yaml:8: placement.4.pci: unknown key; known here: host, nic, numa, switch",
    ]


def test_ranks_are_told_of_the_file() -> None:
    assert unbuilt().env(1, Path("/lab/places.json"))["R2CC_TOPO_FILE"] == "/lab/places.json"
    assert "R2CC_TOPO_FILE" not in unbuilt().env(1)
