"""One reader of YAML: it knows the kinds of files, and says which command takes one that is misplaced."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chaos.simulate.workloads.kinds import KINDS
from harness.cli import run_cli
from harness.config import documents
from harness.config.kinds import (
    CAMPAIGN,
    EXPERIMENT,
    INVENTORY,
    POLICY,
    SIMULATED,
    SIMULATED_NETWORK,
    SIMULATION,
    TOPOLOGY,
    Kind,
    kind_of,
    misplaced,
)

ROOT = Path(__file__).parents[2]
SIM = ROOT / "experiments" / "sim"
SHIPPED: dict[Kind, list[Path]] = {
    EXPERIMENT: [path for path in (ROOT / "experiments").rglob("*.yaml") if not {"sim", "campaigns"} & set(path.parts)],
    CAMPAIGN: [*(ROOT / "experiments" / "campaigns").glob("*.yaml")],
    SIMULATION: [*SIM.glob("*.yaml")],
    SIMULATED_NETWORK: [*(SIM / "topologies").glob("*.yaml")],
    TOPOLOGY: [*(ROOT / "harness" / "lab" / "topologies").glob("*.yaml")],
    POLICY: [*(ROOT / "ci" / "policies").glob("*.yaml")],
}


@pytest.mark.parametrize(("kind", "path"), [(kind, path) for kind, paths in SHIPPED.items() for path in paths])
def test_what_we_ship_is_of_its_kind(kind: Kind, path: Path) -> None:
    assert all(SHIPPED.values())
    value = documents.mapping_of(path)
    assert misplaced(value, kind, "x") == ""
    assert kind_of(value) == kind or kind is TOPOLOGY


@pytest.mark.parametrize(
    ("words", "file", "said"),
    [
        ("chaos run", "experiments/sim/serving.yaml", "a simulation, not an experiment: r2cc sim run {file}"),
        ("chaos campaign --out x", "experiments/nic_down.yaml", "an experiment, not a campaign: r2cc chaos run {file}"),
        ("chaos validate", "experiments/campaigns/two_gpus.yaml", "a campaign, not an experiment: r2cc chaos campaign"),
        ("sim run", "experiments/nic_down.yaml", "an experiment, not a simulation: r2cc chaos run {file}"),
        ("lab up", "experiments/sim/topologies/h100_1024.yaml", "a simulated topology, not a lab's topology: name it"),
        ("hosts list --inventory", "experiments/nic_down.yaml", "an experiment, not an inventory: r2cc chaos run"),
    ],
)
def test_a_file_that_is_misplaced_is_told_where_to_go(
    capsys: pytest.CaptureFixture[str], words: str, file: str, said: str
) -> None:
    path = ROOT / file
    assert run_cli([*words.split(), str(path)]) == 2
    error = capsys.readouterr().err
    assert f"{path}:1: this is {said.format(file=path)}" in error and len(error) < 400


def test_what_is_not_certain_is_left_to_the_reader_of_the_kind() -> None:
    unsure = [
        None,
        {"name": "x"},
        {"workload": {}, "arms": ["stock"], "faults": []},
        {"workload": {"kind": "training"}, "arms": {"stock": {}}},
        {"hosts": 2, "nics": 2},
        {"hosts": 2, "nics": 2, "ports": 1, "mtu": 9000},
    ]
    assert [kind_of(value) for value in unsure] == [None] * len(unsure)
    assert kind_of({"hosts": [{"name": "a"}]}) == INVENTORY


def test_the_kinds_of_simulated_workloads_are_known() -> None:
    assert sorted(SIMULATED) == sorted(KINDS)


def test_no_other_module_reads_yaml() -> None:
    sources = [path for layer in ("r2cc", "harness", "chaos", "reports", "ci") for path in (ROOT / layer).rglob("*.py")]
    found = {path.name for path in sources if re.search(r"^\s*(import|from) yaml\b", path.read_text(), re.MULTILINE)}
    assert found == {"yaml_text.py", "yaml_nodes.py", "documents.py"}
