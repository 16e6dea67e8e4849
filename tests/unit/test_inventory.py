"""Which `--inventory` values are understood, and that the others stop before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import InputErrors, LabError, UsageError
from harness.lab.lab import Lab
from harness.sites import inventory


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
    with pytest.raises(UsageError, match=says) as caught, inventory.open_inventory(spec):
        pass
    assert caught.value.exit_code == 2
    assert caught.value.hint


def test_an_existing_inventory_file_is_not_mistaken_for_a_typo(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text("hosts: []\n")
    with pytest.raises(UsageError, match="hosts over SSH are no lab"), inventory.open_inventory(str(file)):
        pass


def test_a_bad_topology_lists_its_errors(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text("hosts: 0\nnics: 0\n")
    with pytest.raises(InputErrors) as caught, inventory.open_inventory(f"lab:{file}"):
        pass
    assert [error.startswith(f"{file}:{line}: ") for line, error in enumerate(caught.value.errors, 1)] == [True, True]


def test_missing_tools_are_named_together_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "tc").touch(mode=0o755)
    with pytest.raises(LabError, match="the lab needs ip, nft") as caught:
        inventory.require_tools(str(tmp_path))
    assert caught.value.hint == "sudo apt-get install iproute2 nftables"
    assert caught.value.exit_code == 3


def test_some_hosts_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "hosts:1.yaml"  # a colon of its own
    file.write_text("schema: 1\nhosts:\n  - name: node[1-4]\n")
    assert inventory.is_cluster(str(file))
    assert [host.name for host in inventory.cluster_hosts(str(file))] == ["node1", "node2", "node3", "node4"]
    assert inventory.is_cluster(f"{file}:node[2-3]")
    assert [host.name for host in inventory.cluster_hosts(f"{file}:node[3,2]")] == ["node2", "node3"]
    for words, says in (("node[3-9]", "has no host node5, node6"), ("node[3", "brackets")):
        with pytest.raises(UsageError, match=says):
            inventory.cluster_hosts(f"{file}:{words}")
