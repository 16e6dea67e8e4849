"""Which `--inventory` values are understood, and that the others stop before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import InputErrors, LabError, UsageError
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.sites.cluster import ClusterSite
from harness.sites.inventory import parse
from harness.sites.lab import require_tools
from harness.sites.site import Site


@pytest.fixture(autouse=True)
def no_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anything that gets as far as starting a lab fails the test."""

    def started(*_args: object, **_options: object) -> Lab:
        raise AssertionError("a lab was started")

    monkeypatch.setattr(Lab, "up", started)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("vm:9x4", "no vm lab"),
        ("lab:", "names no topology file"),
        ("cluster.yaml", "no inventory 'cluster.yaml'"),
        ("labs", "no inventory 'labs'"),
        ("", "no inventory ''"),
        ("lab:absent.yaml", "cannot read the lab's topology absent.yaml"),
    ],
)
def test_unsupported_beds_are_usage_errors(spec: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught, parse(spec).open():
        pass
    assert caught.value.exit_code == 2
    assert caught.value.hint


def test_a_file_is_read_as_an_inventory_when_it_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text("hosts: []\n")
    site = parse(str(file))
    assert isinstance(site, ClusterSite)
    with pytest.raises(InputErrors, match=r"hosts\.yaml:1: hosts: "), site.open():
        pass


def test_this_machine_is_a_site_where_a_command_says_so() -> None:
    with parse("local", local=True).open() as opened:
        assert [*opened.hosts] == ["localhost"] and opened.switch is None
    with pytest.raises(UsageError, match="no inventory 'local'"):
        parse("local")


@pytest.mark.parametrize(
    ("text", "bed", "has_switch", "machines"),
    [("lab", "lab", True, False), ("lab:default", "lab", True, False), ("vm:2x2", "vm", True, True)],
)
def test_a_site_is_planned_without_starting_anything(text: str, bed: str, has_switch: bool, machines: bool) -> None:
    site = parse(text)
    assert (str(site), site.bed, site.has_switch, site.machines) == (text, bed, has_switch, machines)
    planned = site.planned()
    assert planned.root == "10.250.0.1" and planned.hosts[:2] == ["h0", "h1"]
    assert {nic.host for nic in planned.nics} == {*planned.hosts}
    assert [entry.name for entry in site.listing()] == planned.hosts


def test_a_plain_lab_is_made_as_an_experiment_wants_it() -> None:
    small = Topology(hosts=3, nics=1, gpus=2)
    assert [*map(len, (shaped("lab", small).planned().hosts, shaped("lab:default", small).planned().hosts))] == [3, 4]
    assert shaped("lab", small).gpus() == 2
    assert shaped("vm:2x2", small).topology is small


def shaped(text: str, topology: Topology) -> Site:
    return parse(text).shaped(topology)


def test_a_bad_topology_lists_its_errors(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text("hosts: 0\nnics: 0\n")
    with pytest.raises(InputErrors) as caught, parse(f"lab:{file}").open():
        pass
    assert [error.startswith(f"{file}:{line}: ") for line, error in enumerate(caught.value.errors, 1)] == [True, True]


def test_missing_tools_are_named_together_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "tc").touch(mode=0o755)
    with pytest.raises(LabError, match="the lab needs ip, nft") as caught:
        require_tools(str(tmp_path))
    assert caught.value.hint == "sudo apt-get install iproute2 nftables"
    assert caught.value.exit_code == 3


def test_some_hosts_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "hosts:1.yaml"  # a colon of its own
    file.write_text("schema: 1\nhosts:\n  - name: node[1-4]\n")
    assert names(f"{file}") == ["node1", "node2", "node3", "node4"]
    assert names(f"{file}:node[3,2]") == ["node2", "node3"]
    for words, says in (("node[3-9]", "has no host node5, node6"), ("node[3", "brackets")):
        with pytest.raises(UsageError, match=says):
            names(f"{file}:{words}")


def names(text: str) -> list[str]:
    site = parse(text)
    assert isinstance(site, ClusterSite)
    return [host.name for host in site.members]
