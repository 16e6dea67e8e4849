"""Files of simulations: every error at once with its line; axes make points, points make cells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sim_files
from click.testing import CliRunner

from chaos.simulate.commands import sim
from chaos.simulate.run.cell import Payload
from chaos.simulate.run.experiment import load
from chaos.simulate.workloads.cells import Cell, of_point, seed_of
from harness import schemas
from harness.config.dotted import setting
from harness.errors import InputErrors, UsageError

ROOT = Path(__file__).parents[2]
BAD = """\
schema: 1
name: Bad name
topology: {hosts: 4, nics: 4, rate_gbit: 100, nvlink_GBps: 300, gpu: 4}
workload: {kind: collective, op: nope, bytes: -3}
faults: {failed_nics: 1, trace: none.jsonl}
arms: [stock, nothing]
axes:
  topology.hosts: 8
seed: -1
extra: 3
"""


def errors_of(path: Path, text: str) -> list[str]:
    path.write_text(text)
    with pytest.raises(InputErrors) as caught:
        load(path)
    return [error.removeprefix(f"{path}:") for error in caught.value.errors]


def test_every_error_of_a_file_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    errors = errors_of(tmp_path / "bad.yaml", BAD)
    lines = [int(error.partition(":")[0]) for error in errors]
    assert lines == sorted(lines)
    assert set(lines) == {2, 3, 4, 5, 6, 8, 9, 10}
    told = "\n".join(errors)
    for words in (
        "workload.op",
        "workload.bytes",
        "none.jsonl",
        "exclude each other",
        "'nothing'",
        "extra: unknown key",
    ):
        assert words in told


def test_what_an_axis_makes_wrong_is_told_at_the_axis(tmp_path: Path) -> None:
    path = sim_files.write(tmp_path, axes={"workload.bytes": [1024, -1], "faults.failed_nics": [1, 99]})
    errors = errors_of(path, path.read_text())
    assert any("axes.workload.bytes: at workload.bytes=-1" in error for error in errors)
    assert any("axes.faults.failed_nics: at workload.bytes=1024, faults.failed_nics=99" in error for error in errors)
    assert not any("1024, faults.failed_nics=1:" in error for error in errors)


def test_a_file_that_is_no_mapping_and_one_that_is_not_there(tmp_path: Path) -> None:
    assert "mapping" in errors_of(tmp_path / "list.yaml", "[1, 2]")[0]
    assert "not valid YAML" in errors_of(tmp_path / "broken.yaml", "a: [")[0]
    with pytest.raises(UsageError, match="cannot read"):
        load(tmp_path / "missing.yaml")


def test_files_that_it_names_have_lines_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("hosts: 4\nnics: 0\n")
    (tmp_path / "trace.jsonl").write_text("{}\n")
    path = sim_files.write(tmp_path, topology="cluster.yaml", faults={"trace": "trace.jsonl"}, axes=None)
    told = "\n".join(errors_of(path, path.read_text()))
    assert f"{tmp_path}/cluster.yaml:2: nics" in told
    assert f"{tmp_path}/trace.jsonl:1: index: this is required" in told
    (tmp_path / "cluster.yaml").write_text("hosts: 4\n")
    assert load(sim_files.write(tmp_path, topology="cluster.yaml", axes=None)).points[0].topology["hosts"] == 4


def test_faults_of_a_list_are_at_places_that_there_are(tmp_path: Path) -> None:
    listed = [{"what": "nic", "where": [9, 0]}, {"what": "tor", "where": [0, 1]}, {"what": "nic", "where": [3, 3]}]
    path = sim_files.write(tmp_path, faults={"list": listed, "days": 1}, axes=None)
    first, second = errors_of(path, path.read_text())
    assert "faults.list.0: small has no such nic" in first
    assert "faults.list.1: where: [tor] for a tor" in second


def test_an_impossible_topology_names_the_host(tmp_path: Path) -> None:
    gone = [{"host": 2, "nic": nic, "capacity": 0.0} for nic in range(4)]
    path = sim_files.write(tmp_path, topology={**sim_files.TOPOLOGY, "overrides": gone}, axes=None)
    assert "host 2 has no path to the others" in errors_of(path, path.read_text())[0]


def test_references_and_expectations_name_what_there_is(tmp_path: Path) -> None:
    reference = {
        "arm": "optcc",
        "figure": "rat",
        "at": {"faults.failed_nics": 77, "no.axis": 1},
        "value": 1,
        "source": "x",
    }
    path = sim_files.write(tmp_path, references=[reference], expect=[{"arm": "stock", "figure": "ratio"}])
    told = "\n".join(errors_of(path, path.read_text()))
    for words in ("no arm 'optcc'", "no point is there", "no axis 'no.axis'", "min or max is needed"):
        assert words in told
    wrong = sim_files.write(tmp_path, references=[{**reference, "arm": "stock", "at": {}}])
    assert "no figure 'rat'" in errors_of(wrong, wrong.read_text())[0]


def test_axes_make_points_in_order(tmp_path: Path) -> None:
    axes = {"workload.bytes": [1024, 2048], "scale": {"few": {"topology.hosts": 2}, "many": {"topology.hosts": 8}}}
    points = load(sim_files.write(tmp_path, axes=axes)).points
    assert [dict(point.at) for point in points] == [
        {"workload.bytes": size, "scale": scale} for size in (1024, 2048) for scale in ("few", "many")
    ]
    assert [point.topology["hosts"] for point in points] == [2, 8, 2, 8]
    assert [point.index for point in points] == [0, 1, 2, 3]


def test_set_changes_the_file_and_says_when_it_cannot(tmp_path: Path) -> None:
    path = sim_files.write(tmp_path, axes=None)
    assert load(path, dict([setting("topology.hosts=8"), setting("seed=3")])).points[0].topology["hosts"] == 8
    with pytest.raises(InputErrors, match=r"--set name\.x"):
        load(path, {"name.x": 1})
    with pytest.raises(UsageError, match="KEY=VALUE"):
        setting("nothing")
    with pytest.raises(UsageError, match="--set a"):
        setting("a=[")


def test_set_reaches_into_a_topology_of_its_own_file(tmp_path: Path) -> None:
    shipped = ROOT / "experiments/sim/job_30_days.yaml"
    changed = load(shipped, {"topology.hosts": 32, "workload.model": "gpt-13b"})
    assert {point.topology["hosts"] for point in changed.points} == {32}
    assert changed.points[0].topology["rate_gbit"] == load(shipped).points[0].topology["rate_gbit"]
    again = tmp_path / "again.yaml"
    again.write_text(changed.dump())
    assert load(again).points == changed.points
    with pytest.raises(InputErrors, match=r"job_30_days\.yaml:\d+: topology\.host: unknown key"):
        load(shipped, {"topology.host": 32})
    with pytest.raises(InputErrors, match=r"--set topology\.hosts\.x: topology\.hosts is no mapping"):
        load(shipped, {"topology.hosts.x": 1})


def test_a_resolved_file_is_the_same_experiment(tmp_path: Path) -> None:
    first = load(sim_files.write(tmp_path))
    again = tmp_path / "again.yaml"
    again.write_text(first.dump())
    assert load(again).points == first.points
    assert load(again).dump() == first.dump()


def test_cells_cover_every_trace_once_and_depend_on_the_file_alone(tmp_path: Path) -> None:
    assert of_point(3, 7, 3) == [Cell(3, 0, 3), Cell(3, 3, 3), Cell(3, 6, 1)]
    payload = Payload.of(load(sim_files.write(tmp_path)))
    traces = [(cell.point, number) for cell in payload.cells() for number in cell.traces]
    assert traces == [(point, number) for point in range(3) for number in range(6)]
    assert len({cell.id for cell in payload.cells()}) == len(payload.cells())


def test_seeds_are_of_the_trace_and_the_stream() -> None:
    seeds = {seed_of(seed, trace, stream) for seed in (1, 2) for trace in range(50) for stream in (0, 1)}
    assert len(seeds) == 200
    assert max(seeds) < 2**53
    assert seed_of(1, 0) == seed_of(1, 0)


def test_the_schemas_are_what_the_models_say() -> None:
    assert schemas.problems("sim_experiment", sim_files.SMALL) == []
    assert schemas.problems("sim_experiment", {**sim_files.SMALL, "seed": "x"})


@pytest.mark.parametrize("path", sorted((ROOT / "experiments" / "sim").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_experiment_can_be_read(path: Path) -> None:
    experiment = load(path)
    assert experiment.name == path.stem
    assert experiment.title
    assert all(reference.source for reference in experiment.references)


def test_dry_run_says_what_would_be_done_and_does_nothing(tmp_path: Path) -> None:
    path = sim_files.write(tmp_path)
    found = CliRunner().invoke(sim, ["run", str(path), "--dry-run", "--json", "--out", str(tmp_path / "runs")])
    assert found.exit_code == 0
    plan = json.loads(found.stdout)
    assert (len(plan["points"]), plan["cells"], plan["traces"]) == (3, 9, 18)
    assert not (tmp_path / "runs").exists()
