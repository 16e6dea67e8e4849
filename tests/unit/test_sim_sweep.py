"""Sweeps: the same bytes whoever computes them, whenever; what was finished stays finished."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import sim_files
from click.testing import CliRunner, Result

from chaos.simulate.commands import sim
from chaos.simulate.run.cell import Payload, added, run_cell
from chaos.simulate.run.experiment import load
from chaos.simulate.run.result import build
from chaos.simulate.run.sweep import Sweep, _how_far
from chaos.simulate.workloads.cells import Cell
from harness.cli import run_cli
from harness.errors import InfraError, InputErrors, SshError, UsageError
from harness.schemas import plain

LIMIT_S = 60.0
MANY = {"faults": {"failed_nics": 3, "traces": 200, "days": 1, "block": 1}, "axes": None}
"""More cells than are done between the first one and a signal."""


@pytest.fixture(autouse=True)
def _no_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.plugins.after_run", lambda path, quiet: None)


def sweep(file: Path, out: Path, *options: str) -> Result:
    return CliRunner().invoke(sim, ["sweep", str(file), "--out", str(out), "--quiet", *options])


def files(folder: Path) -> dict[str, bytes]:
    """What must be the same to the byte."""
    found = sorted((folder / "cells").glob("*.json"))
    return {path.name: path.read_bytes() for path in [*found, folder / "simulation.json", folder / "experiment.yaml"]}


@pytest.mark.build
def test_one_process_or_several_give_the_same_bytes(tmp_path: Path) -> None:
    file = sim_files.write(tmp_path)
    assert CliRunner().invoke(sim, ["run", str(file), "--out", str(tmp_path / "runs"), "--quiet"]).exit_code == 0
    [here] = (tmp_path / "runs").iterdir()
    assert sweep(file, tmp_path / "two", "--workers", "2").exit_code == 0
    assert sweep(file, tmp_path / "four", "--workers", "4").exit_code == 0
    assert files(here) == files(tmp_path / "two") == files(tmp_path / "four")
    assert len(files(here)) == 9 + 2


@pytest.mark.build
def test_another_seed_gives_other_bytes(tmp_path: Path) -> None:
    payloads = [Payload.of(load(sim_files.write(tmp_path), {"seed": seed})) for seed in (1, 1, 2)]
    first, same, other = (run_cell(payload, Cell(1, 0, 2)) for payload in payloads)
    assert first == same
    assert first.seeds != other.seeds


@pytest.mark.build
def test_a_cell_does_not_depend_on_those_before_it(tmp_path: Path) -> None:
    payload = Payload.of(load(sim_files.write(tmp_path)))
    forward = [run_cell(payload, cell) for cell in payload.cells()]
    backward = [run_cell(payload, cell) for cell in reversed(payload.cells())]
    assert forward == backward[::-1]


@pytest.mark.build
def test_resume_runs_what_is_missing_damaged_or_foreign_and_nothing_else(tmp_path: Path) -> None:
    file, out = sim_files.write(tmp_path), tmp_path / "out"
    assert sweep(file, out, "--workers", "1").exit_code == 0
    whole = files(out)
    names = sorted(path.name for path in (out / "cells").iterdir())
    (out / "cells" / names[0]).unlink()
    (out / "cells" / names[1]).write_text('{"half')
    (out / "cells" / names[2]).write_bytes((out / "cells" / names[3]).read_bytes())
    kept = (out / "cells" / names[4]).stat().st_mtime_ns
    assert sweep(file, out, "--workers", "1", "--resume").exit_code == 0
    assert files(out) == whole
    assert (out / "cells" / names[4]).stat().st_mtime_ns == kept


def test_a_directory_is_not_taken_for_what_it_is_not(tmp_path: Path) -> None:
    file, out = sim_files.write(tmp_path), tmp_path / "out"
    Sweep(load(file), out).prepare(resume=False)
    with pytest.raises(UsageError, match="already holds"):
        Sweep(load(file), out).prepare(resume=False)
    with pytest.raises(UsageError, match="another simulation"):
        Sweep(load(file, {"seed": 2}), out).prepare(resume=True)
    (out / "sweep.json").write_text('{"schema": 1, "code": "other"}')
    with pytest.raises(UsageError, match="another r2cc"):
        Sweep(load(file), out).prepare(resume=True)


def test_a_worker_with_another_r2cc_refuses(tmp_path: Path) -> None:
    payload = Payload.of(load(sim_files.write(tmp_path)))
    with pytest.raises(InfraError, match="another r2cc"):
        run_cell(Payload(**{**payload.__dict__, "code": "other"}), payload.cells()[0])


def start(file: Path, out: Path) -> subprocess.Popen[str]:
    argv = [str(Path(sys.executable).with_name("r2cc")), "sim", "sweep", str(file), "--out", str(out), "--workers", "2"]
    return subprocess.Popen(argv, text=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)


def wait_for(process: subprocess.Popen[str], what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not what():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.build
def test_kill_9_then_resume_is_as_if_nothing_had_been(tmp_path: Path) -> None:
    file, out = sim_files.write(tmp_path, **MANY), tmp_path / "killed"
    process = start(file, out)
    wait_for(process, lambda: any((out / "cells").glob("p*.json")))
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate(timeout=LIMIT_S)
    done = len(list((out / "cells").glob("p*.json")))
    assert 0 < done < 200
    assert not (out / "simulation.json").exists()
    psutil.wait_procs(children, LIMIT_S)
    assert not any(child.is_running() for child in children)
    assert sweep(file, out, "--workers", "2", "--resume").exit_code == 0
    assert sweep(file, tmp_path / "whole", "--workers", "2").exit_code == 0
    assert files(out) == files(tmp_path / "whole")


@pytest.mark.build
def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(tmp_path: Path) -> None:
    file, out = sim_files.write(tmp_path, **MANY), tmp_path / "in terrupted"
    process = start(file, out)
    wait_for(process, lambda: any((out / "cells").glob("p*.json")))
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    done = len(list((out / "cells").glob("p*.json")))
    assert f"interrupted: {done} of 200 cells are done" in told
    assert f"--out '{out}' --resume" in told
    assert "Traceback" not in told


@pytest.mark.build
def test_expectations_make_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = sim_files.write(tmp_path, expect=[{"arm": "balance", "figure": "ratio", "max": 1.0}])
    assert run_cli(["sim", "run", str(file), "--out", str(tmp_path / "runs"), "--json", "--quiet"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert (value["verdict"], value["exit_code"]) == ("deviated", 1)
    outcomes = {check["name"]: check["outcome"] for check in value["checks"]}
    assert outcomes["balance ratio at faults.failed_nics=0"] == "holds"
    assert outcomes["balance ratio at faults.failed_nics=2"] == "deviated"


@pytest.mark.build
def test_a_trace_is_written_and_read_again(tmp_path: Path) -> None:
    file = sim_files.write(tmp_path, axes=None)
    found = CliRunner().invoke(sim, ["faults", str(file), "--out", str(tmp_path / "trace.jsonl"), "--json"])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["faults"] >= 1
    again = load(sim_files.write(tmp_path, "again.yaml", axes=None, faults={"trace": "trace.jsonl", "days": 1}))
    drawn = run_cell(Payload.of(load(file)), Cell(0, 0, 1))
    assert run_cell(Payload.of(again), Cell(0, 0, 1)).arms == drawn.arms


@pytest.mark.build
def test_a_job_says_what_each_arm_saves_trace_by_trace(tmp_path: Path) -> None:
    topology = {**sim_files.TOPOLOGY, "hosts": 16, "gpus": 8, "nics": 8}
    faults = {"rates": {"nic_tor": 0.5}, "days": 30, "traces": 2}
    workload, arms = {"kind": "job", "model": "gpt-7b"}, ["stock", "exclusion", "allreduce"]
    ratio = {"name": "over_ours", "figure": "overhead", "arm": "exclusion", "over": "allreduce"}
    changes = {"topology": topology, "faults": faults, "workload": workload, "arms": arms, "ratios": [ratio]}
    experiment = load(sim_files.write(tmp_path, axes=None, expect=None, **changes))
    payload = Payload.of(experiment)
    cells = [(cell, run_cell(payload, cell)) for cell in payload.cells()]
    found = plain(build(experiment, cells, "code"))
    values = {
        (point["arm"], figure["name"]): figure["value"] for point in found["points"] for figure in point["figures"]
    }
    assert values["stock", "restarts"] > 0
    assert values["allreduce", "restarts"] < values["stock", "restarts"] / 10
    saved = values["stock", "gpu_hours_lost"] - values["allreduce", "gpu_hours_lost"]
    assert values["allreduce", "gpu_hours_saved"] == pytest.approx(saved)
    assert values["allreduce", "cost_saved_usd"] > 0
    assert ("stock", "gpu_hours_saved") not in values
    # With eight ranks a host NCCL's own choice runs on what is left: which arm is ahead depends on how large dp is.
    ours, theirs = values["allreduce", "overhead"], values["exclusion", "overhead"]
    assert ours > 0 and values["exclusion/allreduce", "over_ours"] == pytest.approx(theirs / ours)
    rows = {row["kind"]: row for row in found["coverage"]}
    assert rows["nic_tor"]["arms"]["stock"]["outcome"] == "restart"
    assert rows["nic_tor"]["arms"]["allreduce"]["outcome"] == "survived"
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1)


@pytest.mark.build
def test_training_beside_failed_nics_is_slower_and_an_arm_that_stops_has_no_time(tmp_path: Path) -> None:
    topology = {**sim_files.TOPOLOGY, "gpus": 8, "nics": 8}
    workload, arms = {"kind": "training", "model": "gpt-7b"}, ["stock", "migrate", "balance"]
    file = sim_files.write(tmp_path, topology=topology, workload=workload, arms=arms, expect=None)
    payload = Payload.of(load(file))
    overhead = {arm: found.figures["overhead"] for arm, found in run_cell(payload, Cell(1, 0, 1)).arms.items()}
    assert overhead["stock"] == [None]
    assert overhead["migrate"][0] > overhead["balance"][0] >= 0
    whole = run_cell(payload, Cell(0, 0, 1)).arms
    assert [found.figures["overhead"] for found in whole.values()] == [[0.0]] * 3


@pytest.mark.build
def test_a_service_loses_less_with_us_and_keeps_its_distributions(tmp_path: Path) -> None:
    topology = {**sim_files.TOPOLOGY, "hosts": 3, "gpus": 8, "nics": 8, "rate_gbit": 400}
    workload = {"kind": "serving", "model": "llama-3.1-405b", "tp": 16, "requests": 100, "rate": 0.5}
    faults = {"list": [{"t_s": 50, "what": "nic", "where": [0, 0]}], "days": 0.01}
    changes = {"topology": topology, "workload": workload, "faults": faults, "arms": ["stock", "allreduce"]}
    experiment = load(sim_files.write(tmp_path, axes=None, expect=None, **changes))
    payload = Payload.of(experiment)
    found = plain(build(experiment, [(cell, run_cell(payload, cell)) for cell in payload.cells()], "code"))
    values = {
        (point["arm"], figure["name"]): figure["value"] for point in found["points"] for figure in point["figures"]
    }
    assert values["stock", "outage_s"] > 60
    assert 0 < values["allreduce", "outage_s"] < 1
    assert values["stock", "ttft_p99_ms"] > 2 * values["allreduce", "ttft_p99_ms"]
    shapes = {(shape["arm"], shape["name"]): shape["quantiles"] for shape in found["distributions"]}
    assert set(shapes) == {(arm, name) for arm in ("stock", "allreduce") for name in ("ttft", "tpot")}
    half = next(value for share, value in shapes["allreduce", "ttft"] if share == 0.5)
    assert half == pytest.approx(values["allreduce", "ttft_p50_ms"], rel=0.1)
    assert all(quantiles == sorted(quantiles) for quantiles in shapes.values())


def test_rates_that_there_are_not_are_errors(tmp_path: Path) -> None:
    file = sim_files.write(tmp_path, axes=None, faults={"rates": {"nic_tro": 1}, "days": 1})
    with pytest.raises(InputErrors, match=r"faults\.rates\.nic_tro: no such rate; near it: nic_tor"):
        load(file)


def test_tallies_add_up_by_name() -> None:
    assert added([{"a": {"x": 1}}, {"a": {"x": 2, "y": 3}}, {"b": 4}]) == {"a": {"x": 3, "y": 3}, "b": 4}
    assert added([]) == {}


def test_progress_says_how_long_it_will_take() -> None:
    assert _how_far(110, 100, 50, 6.0) == "60 of 110 cells, 10 of them before, about 6 s left"
    assert _how_far(4, 4, 4, 6.0) == "4 of 4 cells, about 0 s left"


def test_errors_come_whole_from_another_process() -> None:
    for error in (InputErrors(["a:1: x", "a:2: y"]), SshError("timeout", "no answer", "try again"), UsageError("x")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)
