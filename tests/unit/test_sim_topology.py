"""Topologies of simulations: all mistakes at once with their lines, and what cannot work is named."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from chaos.simulate.cluster import topology_files as topologies
from chaos.simulate.cluster.topology import at_tor, tor_of
from harness import schemas
from harness.errors import InputErrors, UsageError

SHIPPED = sorted((Path(__file__).parents[2] / "experiments/sim/topologies").glob("*.yaml"))
BAD = """\
name: Big one
hosts: 10
nics: 4
ports: 3
speed: 5
fabric:
  kind: torus
  pod: 4
  oversubscription: 0.5
overrides:
  - {host: 10, nic: 4, capacity: 2}
  - {host: 1, nic: 1, capacity: 0.5}
  - {host: 1, nic: 1, capacity: 0.5}
"""


def errors_of(value: dict[str, Any]) -> list[str]:
    with pytest.raises(InputErrors) as caught:
        topologies.load({"hosts": 4, "nics": 2, **value})
    return caught.value.errors


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_shipped_topologies_load_and_say_the_same_again(file: Path) -> None:
    found = topologies.load(file)
    assert found.name == file.stem
    assert topologies.load(found.as_dict()) == found
    assert not schemas.problems("sim_topology", found.as_dict())


def test_shipped_topologies_have_the_size_of_their_names() -> None:
    found = {file.stem: topologies.load(file) for file in SHIPPED}
    assert {name: of.hosts * of.gpus for name, of in found.items() if name.startswith("h100")} == {
        "h100_1024": 1024,
        "h100_16384": 16384,
    }
    assert found["hpn_dual_tor"].ports == 2
    assert {of.hosts for name, of in found.items() if name.startswith("lab_")} == {4, 5, 8}


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_every_port_is_at_one_tor_and_tors_say_the_same(file: Path) -> None:
    of = topologies.load(file)
    if of.hosts > 300:
        of = topologies.load({**of.as_dict(), "hosts": of.pod * 2})
    there = [place for tor in range(of.tors) for place in at_tor(of, tor)]
    assert len(there) == len(set(there)) == of.hosts * of.nics * of.ports
    assert all(place in at_tor(of, tor_of(of, *place)) for place in there[:: max(1, len(there) // 200)])
    sizes = Counter(tor_of(of, *place) for place in there)
    each = of.pod * (1 if of.fabric.kind == "rail" else of.nics)
    assert set(sizes.values()) == {each}


def test_every_mistake_of_a_file_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "bad one.yaml"
    file.write_text(BAD)
    with pytest.raises(InputErrors) as caught:
        topologies.load(file)
    told = [error.removeprefix(f"{file}:") for error in caught.value.errors]
    expected = [
        "1: name:", "4: ports:", "5: speed: unknown key", "7: fabric.kind:", "8: fabric.pod: pods of 4 do not divide",
        "9: fabric.oversubscription:", "11: overrides.0.capacity:", "11: overrides.0.host: no host 10",
        "11: overrides.0.nic: no nic 4", "13: overrides.2: NIC 1 of host 1 is given twice",
    ]  # fmt: skip
    assert len(told) == len(expected)
    assert all(line.startswith(start) for line, start in zip(told, expected, strict=True)), told
    assert caught.value.exit_code == 2


def test_a_file_that_is_not_there_or_no_yaml(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the simulated topology"):
        topologies.load(tmp_path / "none.yaml")
    (tmp_path / "x.yaml").write_text("hosts: [")
    with pytest.raises(InputErrors, match=r"x.yaml:1: not valid YAML"):
        topologies.load(tmp_path / "x.yaml")


def test_a_host_without_a_path_is_named() -> None:
    gone = [{"host": 2, "nic": nic, "capacity": 0} for nic in range(2)]
    assert errors_of({"overrides": gone}) == [
        "topology: overrides: host 2 has no path to the others: all 2 NICs have capacity 0"
    ]


def test_rails_are_islands_without_a_spine() -> None:
    apart = [{"host": 0, "nic": 0, "capacity": 0}, {"host": 3, "nic": 1, "capacity": 0}]
    assert "hosts 0 and 3 have no path" in errors_of({"fabric": {"spine": False}, "overrides": apart})[0]
    assert topologies.load({"hosts": 4, "nics": 2, "overrides": apart}).hosts == 4
    assert topologies.load({"hosts": 4, "nics": 2, "fabric": {"spine": False}, "overrides": apart[:1]}).hosts == 4


def test_pods_that_nothing_joins_or_that_do_not_fit() -> None:
    assert "have no path to the others" in errors_of({"fabric": {"pod": 2, "spine": False}})[0]
    assert topologies.load({"hosts": 4, "nics": 2, "fabric": {"pod": 8, "spine": False}}).tors == 2
    assert "1 would be left over" in errors_of({"fabric": {"pod": 3}})[0]


def test_a_topology_is_a_mapping() -> None:
    assert topologies.check([])[1]
