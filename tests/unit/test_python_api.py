"""`import r2cc`: runs, their figures by arm, and tables with units in the names of their columns."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import r2cc
from r2cc.results import _arm
from reports.frames.summary import column
from reports.store.entries import figures

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "data" / "runs" / "recorded"
HEAVY = ("pandas", "numpy", "pydantic", "click", "yaml", "rich", "sqlite3", "reports", "chaos", "pyroute2")
GPU = {"gpu": 1, "busy": 1.0, "memory_busy": 0.5, "sm": 0.25, "used_bytes": 1 << 30, "sm_mhz": 1980, "memory_mhz": 2619}


@pytest.fixture(scope="module")
def run() -> r2cc.Run:
    return r2cc.open(RECORDED)


def test_the_import_is_light() -> None:
    code = (
        "import sys; before = len(sys.modules); import r2cc; "
        f"print([name for name in {HEAVY!r} if name in sys.modules], len(sys.modules) - before)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    heavy, count = said.rsplit(" ", 1)
    assert heavy == "[]"
    assert int(count) < 60


def test_the_pytest_plugin_is_light() -> None:
    code = f"import sys, pytest; import r2cc.pytest_plugin; print([n for n in {HEAVY!r} if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_figures_by_arm(run: r2cc.Run) -> None:
    written = json.loads((RECORDED / "summary.json").read_text())["arms"]
    assert list(run.arms) == [arm["name"] for arm in written]
    for arm in written:
        found, (repeat,) = run.arm(arm["name"]), arm["runs"]
        (fault,) = repeat["faults"]
        assert (found.iterations, found.wrong_elements, found.completed) == (12, 0, True)
        assert (found.stall_ms, found.iteration_ms) == (fault["stall_ms"], fault["iteration_ms"])
        assert found.healthy_ms == repeat["healthy_ms"]["median"]
    assert run.arm("migrate").metrics["failovers"] == 2
    assert (run.verdict, run.notes) == ("void", [])
    assert run.reasons[0].startswith("stock, run 0: void: the machine's CPU")


def test_times_are_of_the_repeats_that_count(run: r2cc.Run) -> None:
    """The second repeat is void, slower, and has one failover more: what is counted counts all the same."""
    arm = next(arm for arm in run._read.summary.arms if arm.name == "migrate")
    first = replace(arm.runs[0], void=[])
    second = replace(
        first,
        run=1,
        void=["busy"],
        healthy_ms=replace(first.healthy_ms, median=1e6),
        faults=[replace(fault, stall_ms=1e6) for fault in first.faults],
        metrics=[replace(each, value=3) if each.name == "failovers" else each for each in first.metrics],
    )
    both = replace(arm, runs=[first, second])
    found = _arm(both)
    assert (found.stall_ms, found.healthy_ms) == (first.faults[0].stall_ms, first.healthy_ms.median)
    assert found.metrics["failovers"] == 3
    kept = {(each.repeat, each.name) for each in figures(replace(run._read.summary, arms=[both]))}
    assert (0, "stall_ms") in kept and (1, "stall_ms") not in kept


def test_what_could_not_be_measured_compares_false(run: r2cc.Run) -> None:
    unmeasured = run.arm("migrate").return_ms
    assert math.isnan(unmeasured)
    assert not unmeasured < 10 and not unmeasured > 10


def test_iterations(run: r2cc.Run) -> None:
    table = run.iterations()
    assert list(table.columns) == (
        ["arm", "repeat", "iteration", "start_s", "duration_ms", "bytes", "busbw_GBps", "wrong_elements"]
    )
    assert table.groupby("arm").size().to_dict() == {"stock": 12, "migrate": 12}
    first = table[table.arm == "stock"].iloc[0]
    assert (first.iteration, first.start_s, first.bytes) == (0, 0.0, 1 << 20)
    assert first.busbw_GBps == pytest.approx((1 << 20) / (first.duration_ms * 1e6) * 4 / 3)
    assert table.start_s.is_monotonic_increasing or len(table.arm.unique()) == 2


def test_samples_of_nics_only_grow(run: r2cc.Run) -> None:
    table = run.samples()
    assert list(table.columns) == ["arm", "repeat", "host", "nic", "time_s", "tx_bytes", "rx_bytes"]
    for _, rows in table.groupby(["arm", "host", "nic"]):
        assert rows.time_s.is_monotonic_increasing and rows.tx_bytes.is_monotonic_increasing


def test_faults(run: r2cc.Run) -> None:
    table = run.faults().set_index("arm")
    assert table.loc["stock", ["id", "kind", "host", "nic", "at_iteration"]].tolist() == (
        ["cable", "link_down", "h1", "eth1", 4]
    )
    assert 0.5 < table.loc["migrate", "reverted_s"] - table.loc["migrate", "onset_s"] < 0.7
    assert pd.isna(table.loc["stock", "detect_ms"])


def test_summary(run: r2cc.Run) -> None:
    table = run.summary()
    assert table.arm.tolist() == ["stock", "migrate"]
    assert table.stall_ms.tolist() == [run.arm(arm).stall_ms for arm in table.arm]
    assert {"busbw_GBps", "cpu_busy_ratio", "rank_memory_bytes", "failovers"} <= set(table.columns)


@pytest.mark.parametrize(
    ("name", "unit", "wanted"),
    [
        ("busbw", "GBps", "busbw_GBps"),
        ("iteration_ms", "ms", "iteration_ms"),
        ("failovers", "connections", "failovers"),
        ("wrong", "", "wrong"),
    ],
)
def test_columns_of_metrics(name: str, unit: str, wanted: str) -> None:
    assert column(name, unit) == wanted


def test_samples_of_gpus(tmp_path: Path, run: r2cc.Run) -> None:
    """A GPU that measures all, and one that measures no NVLink; a line that lacks a field is counted and left out."""
    copy = shutil.copytree(RECORDED, tmp_path / "run")
    written = map(json.loads, (copy / "journal.jsonl").read_text().splitlines())
    start = next(line for line in written if line["event"] == "iteration")
    about = {"schema": 1, "host": "h0", "arm": "stock", "run": 0, "t_ns": start["t_ns"], "event": "gpu"}
    links = {f"{way}_{sent}_bytes": 7 for way in ("nvlink", "pcie") for sent in ("tx", "rx")}
    lines = [{**about, **GPU, **links}, {**about, **GPU, "host": "h1"}, {**about, "gpu": 1, "busy": "much"}]
    with (copy / "journal.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    opened = r2cc.open(copy)
    table = opened.samples("gpu")
    values = table[["host", "gpu", "sm_ratio", "sm_MHz"]].values.tolist()
    assert values == [["h0", 1, 0.25, 1980], ["h1", 1, 0.25, 1980]]
    assert table.nvlink_tx_bytes.tolist()[0] == 7 and table.nvlink_tx_bytes.isna().tolist() == [False, True]
    assert opened.notes == ["1 line(s) of journal.jsonl lack a field, or have another there, and are left out."]
    assert list(run.samples("gpu").columns) == list(table.columns)
    assert run.samples("gpu").empty


def test_a_run_that_was_killed_opens(tmp_path: Path) -> None:
    whole = (RECORDED / "journal.jsonl").read_bytes()
    (tmp_path / "journal.jsonl").write_bytes(whole[: len(whole) // 3])
    shutil.copy(RECORDED / "experiment.yaml", tmp_path)
    run = r2cc.open(tmp_path)
    assert run.verdict == "failed"
    assert any("did not end" in note for note in run.notes)
    assert not run.samples().empty


def test_bad_input(tmp_path: Path, run: r2cc.Run) -> None:
    with pytest.raises(r2cc.UsageError, match="is not a run directory"):
        r2cc.open(tmp_path)
    with pytest.raises(r2cc.UsageError, match="no arm 'balance'"):
        run.arm("balance")
    with pytest.raises(r2cc.UsageError, match="there is no run store"):
        r2cc.store(tmp_path / "none").runs()
    with pytest.raises(r2cc.UsageError, match="there are no samples of 'cpu'"):
        run.samples("cpu")  # type: ignore[arg-type]
    with pytest.raises(r2cc.InputErrors) as caught:
        r2cc.run({"name": "x", "workload": {"iterations": -1}, "topology": {"hosts": 2, "nics": 2}}, out=tmp_path)
    assert len(caught.value.errors) == 2
    with pytest.raises(r2cc.UsageError, match="has no arm 'fast'"):
        r2cc.run(ROOT / "experiments" / "nic_down.yaml", arms=["fast"], out=tmp_path)
    with pytest.raises(r2cc.InputErrors, match="faults has 1 entries, counted from 0"):
        r2cc.run(ROOT / "experiments" / "nic_down.yaml", set={"faults.7.host": "h0"}, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_store(tmp_path: Path) -> None:
    for stamp in ("20261125T033900Z", "20261126T033900Z"):
        shutil.copytree(RECORDED, tmp_path / f"{stamp}-link_down")
    store = r2cc.store(tmp_path)
    table = store.runs()
    assert table.id.tolist() == ["20261126T033900Z-link_down", "20261125T033900Z-link_down"]
    assert (table.made.dt.day.tolist(), table.verdict.unique().tolist()) == ([26, 25], ["void"])
    assert store.runs(verdict="holds").empty
    assert store.open("20261125").arm("stock").iterations == 12
    assert Path(table.path[0]).is_dir()
