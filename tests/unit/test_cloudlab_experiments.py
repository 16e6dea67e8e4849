"""The experiments shipped for CloudLab: valid, of a size that the profile gives out, and all of them in the guide."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.campaign.load import load as load_campaign
from chaos.experiment.file import load
from chaos.testbed.beds import topology_of
from harness.cli import run_cli
from harness.cloudlab.profile import HARDWARE
from harness.sites.inventory import parse

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "cloudlab"
EXPERIMENTS = sorted(FOLDER.glob("*.yaml"))
CAMPAIGNS = sorted((FOLDER / "campaigns").glob("*.yaml"))
PAPERS = {"hot_repair", "balance", "r2cc_allreduce", "k_sweep", "cuda_graph", "training"}


def test_the_papers_experiments_are_there_and_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert {path.stem for path in EXPERIMENTS} >= PAPERS
    assert run_cli(["chaos", "validate", *map(str, EXPERIMENTS)]) == 0
    assert capsys.readouterr().out.count(": ok (") == len(EXPERIMENTS)


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_every_hardware_type_has_what_an_experiment_needs(path: Path) -> None:
    """Two to four hosts, two NICs each at a rate that all ports have; GPUs only where the file says so."""
    experiment = load(path)
    topology = topology_of(experiment)
    assert 2 <= topology.hosts <= 4 and topology.nics == 2
    for hardware in HARDWARE.values():
        assert topology.nics <= len(hardware.ports_gbit) and topology.rate_gbit <= min(hardware.ports_gbit)
    assert ("Needs GPUs" in path.read_text()) == (experiment.workload.kind != "bench") or path.stem == "k_sweep"
    assert all(fault.duration_s for fault in experiment.faults), "every fault ends by itself"


@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.stem)
def test_campaigns_are_valid_and_may_run_anywhere(path: Path) -> None:
    assert {str(cell.site) for cell in load_campaign(path).cells} == {"lab"}
    assert {str(cell.site) for cell in load_campaign(path, parse("lab:default")).cells} == {"lab:default"}


def test_the_k_sweep_differs_in_the_size_of_a_piece_alone() -> None:
    cells = load_campaign(FOLDER / "campaigns" / "k_sweep.yaml").cells
    arms = [cell.experiment.arms["allreduce"] for cell in cells if "allreduce" in cell.arms]
    sizes = [arm.env["R2CC_CHAIN_CHUNK_BYTES"] for arm in arms]
    assert [int(size) for size in sizes] == [4**n * 1024 for n in (2, 3, 4, 5, 6)]
    assert {cell.experiment.arms["allreduce"].env["R2CC_ASSUME_DOWN"] for cell in cells} == {"h0:eth0"}


def test_the_guide_tells_of_every_file() -> None:
    guide = (ROOT / "docs" / "howto" / "cloudlab.md").read_text()
    missing = [str(path.relative_to(FOLDER)) for path in [*EXPERIMENTS, *CAMPAIGNS] if path.name not in guide]
    assert missing == []
