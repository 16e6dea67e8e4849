"""What the report's figures of stalls, sizes, NICs and earlier runs are made of, on literal numbers."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import summary_parts as parts

from chaos.analysis.model import Summary
from harness.errors import UsageError
from reports.charts import bytes as chart_bytes
from reports.charts import heat as chart_heat
from reports.charts import history as chart_history
from reports.charts import sizes as chart_sizes
from reports.charts import stalls as chart_stalls
from reports.charts.frame import Figure
from reports.formats import html, view
from reports.reading import rundir
from reports.reading.series import Span
from reports.reading.trace import NicId, Trace
from reports.store.imports import About, bring_in
from reports.words.bytes_table import BytesRow

sys.path.insert(0, str(Path(__file__).parents[1] / "data" / "runs"))

import synthetic_run
from nccl_text import nccl_tests
from synthetic_run import Options

Json = dict[str, Any]
SIZES = (8, 1 << 10, 1 << 20, 1 << 30)


def summary(stalls: dict[str, list[float | None]], metrics: dict[str, list[Json]] | None = None) -> Summary:
    arms = [
        {
            "name": arm,
            "metrics": [],
            "runs": [
                {"run": n, "faults": [{"stall_ms": value}], "metrics": (metrics or {}).get(arm, [])}
                for n, value in enumerate(values)
            ],
        }
        for arm, values in stalls.items()
    ]
    return parts.summary(arms)


def busbw(name: str, factor: float, bound: float | None = None) -> list[Json]:
    sizes = [(size, factor * number) for number, size in enumerate(SIZES, 1)]
    return [{"name": name, "unit": "GBps", "size_bytes": s, "value": v, "bound": bound and bound * v} for s, v in sizes]


def text_of(figure: Figure) -> str:
    return " ".join(panel.svg for panel in figure.panels)


def test_the_steps_of_a_distribution() -> None:
    assert chart_stalls.steps([4.0, 2.0], 1.0, 8.0) == [
        (1.0, 0.0),
        (2.0, 0.0),
        (2.0, 0.5),
        (4.0, 0.5),
        (4.0, 1.0),
        (8.0, 1.0),
    ]
    many = chart_stalls.steps([float(n) for n in range(1, 10_001)], 1.0, 20_000.0)
    assert len(many) < 700 and (10_000.0, 1.0) in many
    assert [y for _, y in many] == sorted(y for _, y in many)


def test_all_stalls_of_all_repeats_per_arm() -> None:
    found = chart_stalls.figure(summary({"stock": [4000.0, None, 4100.0], "migrate": [4.0, 6.0, 5.0]}), 10.0)
    assert found is not None
    assert [key.label for key in found.keys] == [
        "Stock NCCL: 2 stalls, median 4.0 s, longest 4.1 s",
        "R2CC: 3 stalls, median 5.0 ms, longest 6.0 ms",
        "the experiment allows 10 ms",
    ]
    assert len({key.cls for key in found.keys}) == 3
    assert "3 stalls, median 5.0 ms" in text_of(found)


@pytest.mark.parametrize("stalls", [{}, {"migrate": [4.0]}, {"stock": [None], "migrate": [4.0]}])
def test_one_stall_is_not_spread(stalls: dict[str, list[float | None]]) -> None:
    assert chart_stalls.figure(summary(stalls), None) is None


def test_bandwidth_over_size_healthy_degraded_and_bound() -> None:
    metrics = [*busbw("busbw", 10), *busbw("busbw_degraded", 6, bound=1.25)]
    found = chart_sizes.figure(summary({"migrate": [None, None]}, {"migrate": metrics}))
    assert found is not None
    assert [key.label for key in found.keys] == ["R2CC", "R2CC, degraded", "bound"]
    drawn = text_of(found)
    assert "R2CC, degraded, 1 MiB: 18 GB/s" in drawn
    assert "bound of R2CC, degraded: 7.5 GB/s at 8 B, 30 GB/s at 1 GiB" in drawn
    ticks = re.findall(r'text-anchor="middle">([^<]*B)<', drawn)
    assert ticks[0] == "8 B" and len(ticks) <= chart_sizes.MOST_TICKS


def test_one_size_is_no_curve() -> None:
    assert chart_sizes.figure(summary({"migrate": [1.0]}, {"migrate": busbw("busbw", 1)[:1]})) is None


def row(nic: str, faulted: bool, **rates: float) -> BytesRow:
    spans = [(name, Span(int(rate * 1e9 / 8), 0, 1.0), rate) for name, rate in rates.items()]
    return BytesRow(NicId("h1", nic), faulted, 0, 0, spans)


TABLE = [
    row("eth0", False, before=1.0, during=0.996, after=1.0),
    row("eth1", True, before=1.0, during=0.0, after=1.0),
    row("eth2", False, before=0.8, during=1.6, after=0.8),
    row("eth3", False, before=0.0, during=0.5, after=0.0),
]


def test_load_beside_the_healthy_one() -> None:
    assert [share for _, share, _ in chart_heat.shares(TABLE)] == [0.996, 0.0, 2.0, None]
    assert [chart_heat.level(share) for share in (0.0, 0.494, 0.499, 0.996, 1.2, 2.0)] == [0, 1, 2, 3, 4, 5]
    found = chart_heat.figure([Trace("migrate", 0)], {"migrate": TABLE})
    assert found is not None and len(found.keys) == 6
    drawn = text_of(found)
    assert re.findall(r'class="label" text-anchor="middle">([^<]+)<', drawn)[4:] == ["100", "0", "200", "–"]
    assert drawn.count('class="frame"') == 1
    assert "h1 eth2: 200%, 1.60 Gbit/s of 0.80 Gbit/s" in drawn


def test_many_nics_of_a_host_have_their_numbers_in_titles() -> None:
    many = [row(f"eth{n:02}", False, before=1.0, during=0.5) for n in range(16)]
    found = chart_heat.figure([Trace("migrate", 0)], {"migrate": many})
    assert found is not None
    assert text_of(found).count("<title>h1 eth") == 16
    assert "text-anchor" not in text_of(found).replace('text-anchor="end"', "")


def test_load_of_a_run_without_a_fault_is_beside_the_busiest() -> None:
    table = [row("eth0", False, **{"whole run": 1.0}), row("eth1", False, **{"whole run": 0.25})]
    assert [share for _, share, _ in chart_heat.shares(table)] == [1.0, 0.25]


def test_bars_before_during_and_after() -> None:
    found = chart_bytes.figure([Trace("migrate", 0)], {"migrate": TABLE}, [NicId("h1", "eth1")])
    assert found is not None
    widths = {
        title: float(width)
        for width, title in re.findall(r'<rect [^>]*width="([\d.]+)"[^>]*><title>([^<]*)</title>', text_of(found))
    }
    assert widths["h1 eth2, 200.0 MB during"] == pytest.approx(2 * widths["h1 eth2, 100.0 MB before"], abs=0.2)
    assert widths["h1 eth1, 0 B during"] == 0.0
    assert "1.0 s before, 1.0 s during, 1.0 s after" in found.caption
    assert chart_bytes.figure([Trace("migrate", 0)], {"migrate": []}, []) is None


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 nights, from the 13th on 10 % faster; a void one, one of other hardware and one of another experiment."""
    folder = tmp_path_factory.mktemp("store")
    last = synthetic_run.make(folder / "20260124T000000Z-nic_down", Options(iterations=10))
    written = json.loads((last / "summary.json").read_text())
    for day in range(1, 24):
        _copy(folder / f"202601{day:02}T000000Z-nic_down", written, 1.1 if day < 13 else 1.0, day)
    _copy(folder / "20260101T000001Z-nic_down", written | {"verdict": "void"}, 5.0, 0)
    _copy(
        folder / "20260101T000002Z-nic_down", written | {"hardware": written["hardware"] | {"fingerprint": "x"}}, 5.0, 0
    )
    _copy(folder / "20260101T000003Z-other", written | {"experiment": "other"}, 5.0, 0)
    _copy(folder / "20260125T000000Z-nic_down", written, 5.0, 0)
    return folder


def _copy(folder: Path, written: Json, factor: float, day: int) -> None:
    folder.mkdir()
    changed = json.loads(json.dumps(written))
    for arm in changed["arms"]:
        for run in arm["runs"]:
            run["healthy_ms"]["median"] *= factor * (1 + 0.001 * (day * 7 % 5))
    (folder / "summary.json").write_text(json.dumps(changed))


def test_the_history_ends_with_this_run_and_tells_what_changed(store: Path) -> None:
    before = sorted(store.iterdir())
    run = rundir.load(store / "20260124T000000Z-nic_down")
    found = chart_history.figure(run.path, run.summary)
    assert found is not None
    assert "after 23 earlier runs" in found.caption
    assert "since 20260113T000000Z-nic_down" in found.caption and "R2CC, healthy iteration, -9.1 %" not in found.caption
    assert "R2CC, healthy iteration -9.1 %" in found.caption
    panel = next(panel for panel in found.panels if panel.heading == "R2CC, healthy iteration, ms")
    assert panel.svg.count("this run") == 2 and "24 runs" in panel.svg and "2026-01-24" in panel.svg
    assert sorted(store.iterdir()) == before
    assert "fig-history" in html.render(run)


def test_the_first_run_and_a_directory_by_itself_have_no_history(store: Path, tmp_path: Path) -> None:
    run = rundir.load(store / "20260124T000000Z-nic_down")
    assert chart_history.figure(store / "20260101T000000Z-nic_down", run.summary) is None
    assert chart_history.figure(synthetic_run.make(tmp_path / "alone", Options(iterations=10)), run.summary) is None


def test_an_imported_run_has_a_report(tmp_path: Path) -> None:
    file = tmp_path / "all_reduce.txt"
    file.write_text(nccl_tests())
    (made,) = bring_in(tmp_path / "store", [file], About("all_reduce"))
    run = rundir.load(made)
    traces = view.shown_traces(run)
    figures = view.figures(run, traces, view.bytes_tables(run, traces))
    assert [figure.id for figure in figures] == ["sizes"]
    assert [key.label for key in figures[0].keys] == ["Stock NCCL", "Stock NCCL, in place"]
    page = html.render(run)
    assert "Stock NCCL: 3 GB/s at 8 B, 30 GB/s at 1 GiB" in page and "All 56 iterations gave exact results" in page


def test_a_summary_alone_is_no_imported_run(store: Path) -> None:
    with pytest.raises(UsageError, match="not a run directory"):
        rundir.load(store / "20260101T000000Z-nic_down")
