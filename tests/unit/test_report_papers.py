"""Figures for papers, and the chart of GPUs in the report."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import struct
import sys
from pathlib import Path

import pytest

from harness.cli import run_cli
from reports.charts import gpus
from reports.formats import html
from reports.papers import style
from reports.reading import rundir, series

RECORDED = Path(__file__).resolve().parents[1] / "data" / "runs" / "recorded"
NAMES = ("bandwidth", "iterations", "stalls")


def report(*words: str) -> int:
    return run_cli(["report", str(RECORDED), "--format", "csv", "--quiet", *words])


def test_pdf_has_fonts_that_journals_take(tmp_path: Path) -> None:
    assert report("--figures", "pdf", "--out", str(tmp_path)) == 0
    first = {name: (tmp_path / f"figure-{name}.pdf").read_bytes() for name in NAMES}
    for data in first.values():
        assert b"/FontFile2" in data and b"/Type3" not in data
        (box,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+)", data)
        assert float(box) == pytest.approx(style.WIDTH_IN * 72, abs=0.5)
    assert report("--figures", "pdf", "--out", str(tmp_path)) == 0
    assert {name: (tmp_path / f"figure-{name}.pdf").read_bytes() for name in NAMES} == first


def test_png_is_as_wide_as_a_column(tmp_path: Path) -> None:
    assert report("--figures", "png", "--out", str(tmp_path)) == 0
    for name in NAMES:
        width, _ = struct.unpack(">II", (tmp_path / f"figure-{name}.png").read_bytes()[16:24])
        assert width == round(style.WIDTH_IN * 300)


def test_no_two_arms_look_alike() -> None:
    looks = style.by_arm(["stock", "migrate", "balance", "allreduce"])
    assert len({colour for colour, _ in looks.values()}) == len({marker for _, marker in looks.values()}) == 4
    assert looks["stock"][0] == style.BASE


def test_without_matplotlib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert report("--figures", "pdf", "--out", str(tmp_path)) == 2
    assert f"{shlex.quote(sys.executable)} -m pip install 'r2cc[figures]'" in capsys.readouterr().err


@pytest.fixture
def with_gpus(tmp_path: Path) -> Path:
    """GPU 0 of h0 works for a second and waits for a second, in the arm `stock`."""
    copy = shutil.copytree(RECORDED, tmp_path / "run")
    lines = [json.loads(line) for line in (copy / "journal.jsonl").read_text().splitlines()]
    began = min(line["start_ns"] for line in lines if line["event"] == "iteration" and line["index"] == 0)
    about = {"schema": 1, "host": "h0", "arm": "stock", "run": 0, "event": "gpu", "gpu": 0, "busy": 1.0}
    more = {"memory_busy": 0.5, "used_bytes": 1, "sm_mhz": 1, "memory_mhz": 1}
    with (copy / "journal.jsonl").open("a") as file:
        for tenth in range(1, 21):
            told = {**about, **more, "t_ns": began + tenth * 100_000_000, "sm": 0.9 if tenth <= 10 else 0.1}
            file.write(json.dumps(told) + "\n")
    return copy


def test_a_gpu_that_waits_is_seen(with_gpus: Path) -> None:
    run = rundir.load(with_gpus)
    (stock,) = run.traces_of("stock")
    (load,) = stock.gpus.values()
    axis = series.common_axis(run.traces)
    drawn = gpus.binned(load, load.activity(), stock.origin_ns(), axis)
    per_second = 1_000_000_000 // axis.bin_ns
    assert drawn[: per_second - 1] == pytest.approx([0.9] * (per_second - 1))
    assert drawn[per_second + 2 : 2 * per_second - 1] == pytest.approx([0.1] * (per_second - 3))
    page = html.render(run)
    assert "Load of each GPU over time" in page and "multiprocessors at work" in page
    assert "Mean of the whole run: h0 gpu0: 50%." in page


def test_a_run_without_gpus_has_no_such_figure() -> None:
    assert gpus.figure(rundir.load(RECORDED).traces) is None
