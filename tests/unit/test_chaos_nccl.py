"""`r2cc chaos run --nccl`: which build runs, what is refused, and that the run says which NCCL it was."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from chaos.commands.chaos import chaos
from chaos.experiment.file import loads
from chaos.experiment.model import Experiment
from chaos.testbed import workbench
from chaos.testbed.hostbench import HostBench
from harness import repo
from harness.errors import UsageError
from harness.repo import Layout
from harness.sites.cluster import ClusterSite
from harness.sites.inventory import parse
from reports.formats import view
from reports.reading import rundir

sys.path.insert(0, str(Path(__file__).parents[1] / "data" / "runs"))

import synthetic_run

ROOT = Path(__file__).resolve().parents[2]
BLACK_HOLE = str(ROOT / "experiments" / "ib" / "black_hole.yaml")
OTHER = "2.30.7"
TORCH = "name: x\ntopology: {hosts: 2, nics: 2}\nworkload: {kind: ddp}\narms:\n  stock: {expect: any}\n"
FOREIGN = TORCH.replace("kind: ddp", "kind: command, argv: [./job], progress: {step: 'step (?P<step>\\d+)'}")
BENCH = TORCH.replace("{kind: ddp}", "{}")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with two pins, and nothing built."""
    pins = tmp_path / "nccl_fork" / "pins"
    pins.mkdir(parents=True)
    for version in (repo.DEFAULT_NCCL, OTHER):
        (pins / f"{version}.toml").touch()
    (pins.parent / "no-source.toml").write_text('"2.31.2" = "nobody publishes it"\n')
    monkeypatch.setattr(repo, "PACKAGE", tmp_path / "r2cc")
    return tmp_path


def build(root: Path, *names: str) -> None:
    for name in names:
        (root / "build" / name).mkdir(parents=True)
        (root / "build" / name / "build.json").write_text("{}")


def experiment(text: str) -> Experiment:
    return loads(text, Path("x.yaml"))


def planned(text: str, version: str | None) -> Any:
    return workbench.planned_for(experiment(text), parse("lab"), None, version)


def refused(text: str, version: str = OTHER) -> tuple[str, str | None]:
    with pytest.raises(UsageError) as caught:
        workbench.layout_for(experiment(text), parse("lab"), version)
    return caught.value.message, caught.value.hint


def test_ranks_and_library_are_those_of_the_version(checkout: Path) -> None:
    build(checkout, f"net-{OTHER}")
    words = ("--inventory", "vm:2x2", "--arms", "upstream", "--dry-run", "--json")
    result = CliRunner().invoke(chaos, ["run", BLACK_HOLE, "--nccl", OTHER, *words], standalone_mode=False)
    (run,) = json.loads(result.stdout)["runs"]
    argv = run["start"][-1]["argv"]
    folder = checkout / "build" / f"net-{OTHER}"
    assert str(folder / "r2cc_bench") in argv
    assert argv[argv.index("--library") + 1] == str(folder / "libr2cc_net.so")
    assert run["start"][0]["argv"][0] == str(folder / "r2cc_sampler")


def test_without_the_option_it_is_the_usual_build(checkout: Path) -> None:
    assert planned(BENCH, None).bench == checkout / "build" / "net" / "r2cc_bench"
    assert workbench.layout_for(experiment(BENCH), ClusterSite("c.yaml", Path()), None) is None


def test_ranks_on_gpus_have_the_nccl_of_the_version(checkout: Path) -> None:
    build(checkout, f"net-{OTHER}", f"nccl-{OTHER}")
    bench = planned(TORCH.replace("nics: 2", "nics: 2, gpus: 1"), OTHER)
    assert bench.library == checkout / "build" / f"nccl-{OTHER}" / "lib" / "libnccl.so.2"
    assert bench.host.library == checkout / "build" / f"net-{OTHER}" / "libr2cc_net.so"


def test_what_is_not_built_is_told_with_the_command_that_builds_it(checkout: Path) -> None:
    folder = checkout / "build" / f"net-{OTHER}"
    assert refused(BENCH) == (f"no build for NCCL {OTHER} in {folder}", f"r2cc build net --nccl {OTHER}")
    build(checkout, folder.name)
    assert refused(TORCH)[1] == f"r2cc build nccl --nccl {OTHER}"


def test_versions_that_nobody_knows_are_refused(checkout: Path) -> None:
    assert "no pin of NCCL 9.9" in refused(BENCH, "9.9")[0]
    assert "nobody publishes it" in refused(BENCH, "2.31.2")[0]


def test_hosts_of_an_inventory_file_run_what_is_deployed(checkout: Path) -> None:
    with pytest.raises(UsageError, match=r"c\.yaml runs what was deployed there") as caught:
        workbench.layout_for(experiment(BENCH), ClusterSite("c.yaml", checkout), OTHER)
    assert f"--build build/net-{OTHER}" in str(caught.value.hint)


def test_a_program_with_an_nccl_of_its_own_is_refused(checkout: Path) -> None:
    assert "brings its own NCCL" in refused(FOREIGN)[0]


def test_what_pip_installed_has_one_nccl(checkout: Path) -> None:
    native = checkout / "r2cc" / "native"
    native.mkdir(parents=True)
    (native / "build.json").write_text("{}")
    assert "pip" in refused(BENCH)[0]


def test_the_run_says_which_nccl_it_was(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    build(checkout, f"net-{OTHER}")

    def built(*, quiet: bool, layout: Layout | None) -> tuple[HostBench, dict[str, Any]]:
        assert quiet
        folder = (layout or repo.programs()).net
        return HostBench(folder / "bench", folder / "sampler", folder / "library"), {"build_id": "1"}

    monkeypatch.setattr(workbench, "built", built)
    records = {}
    for version in (None, OTHER):
        opened = workbench.bench_for(experiment(BENCH), parse("lab"), None, share=False, quiet=True, version=version)
        with opened as (_, record):
            records[version] = record
    assert [record["nccl"] for record in records.values()] == [repo.DEFAULT_NCCL, OTHER]
    with workbench.bench_for(experiment(FOREIGN), parse("lab"), None, share=False, quiet=True) as (_, record):
        assert "nccl" not in record

    run = synthetic_run.make(tmp_path_factory.mktemp("runs") / "one")
    assert "NCCL" not in dict(view.build(rundir.load(run)).facts)
    file = run / "environment.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "build": records[OTHER]}))
    assert dict(view.build(rundir.load(run)).facts)["NCCL"] == OTHER
