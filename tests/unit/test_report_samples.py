"""Byte counters of a journal: what is read many lines at a time is what reading each as JSON gives."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from reports.formats import html
from reports.reading import rundir, samples, series
from reports.reading.counters import Counters, Sample
from reports.reading.samples import Samples
from reports.reading.trace import NicId, Trace

MS = 1_000_000
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def line(t_ns: int, nics: dict[str, Any], host: str = "h0", arm: str = "stock", run: int = 0) -> dict[str, Any]:
    about = {"schema": 1, "host": host, "arm": arm, "run": run, "t_ns": t_ns}
    return {**about, "event": "sample", "nics": nics}


def raw(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def moved(sent: int) -> dict[str, int]:
    return {"tx_bytes": sent, "rx_bytes": 2 * sent}


def lines() -> Iterator[dict[str, Any]]:
    """Two hosts, several NICs of which not all change at each sample; one appears late."""
    late = {"np1": moved(1), "n1p": moved(2)}
    for n in range(200):
        yield line(n * 10 * MS, {name: moved(n * 1000 + i) for i, name in enumerate(("eth1", "eth10")) if n % (i + 2)})
        yield line(n * 10 * MS, {"mlx5_0": moved(n << 40), **(late if n > 150 else {})}, "h1")
        yield line(n * 10 * MS + 1, {"eth1": moved(n)}, arm="migrate", run=n % 2)


def read(text: bytes, tmp_path: Path) -> tuple[Samples, list[dict[str, Any]], list[str]]:
    (tmp_path / "journal.jsonl").write_bytes(text)
    found, notes = Samples(), list[str]()
    rest = rundir.read_lines(tmp_path / "journal.jsonl", notes, found)
    return found, rest, notes


def told(found: Samples) -> dict[tuple[str, int], dict[str, list[list[int]]]]:
    return {
        key: {
            str(nic): [column.tolist() for column in (c.t_ns, c.tx_bytes, c.rx_bytes)]
            for nic, c in ((nic, counters.columns()) for nic, counters in nics.items())
        }
        for key, nics in found.by_run.items()
    }


@pytest.mark.parametrize("at_once", [1, 7, 8192])
def test_many_lines_at_once_say_what_each_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(samples, "AT_ONCE", at_once)
    quick, rest, notes = read(b"".join(map(raw, lines())), tmp_path)
    assert (rest, notes) == ([], [])
    slow = Samples()
    for each in lines():
        slow.add(each)
    assert told(quick) == told(slow)
    assert told(quick)["stock", 0]["h1 n1p"][1][0] == 2


def test_most_lines_are_not_read_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this the test above would pass with a reader that is as slow as JSON."""
    parsed: list[bytes] = []
    monkeypatch.setattr(Samples, "_read_one", lambda _self, raw: parsed.append(raw))
    read(b"".join(map(raw, lines())), tmp_path)
    assert len(parsed) < 60


def test_lines_of_another_order_and_odd_ones(tmp_path: Path) -> None:
    other = {"event": "sample", "nics": {"eth0": moved(5)}, "t_ns": 7, "run": 0, "arm": "a", "host": "é", "schema": 1}
    text = b"".join(
        [
            raw(line(10, {"eth0": moved(1)})),
            raw(line(20, {"eth0": {"tx_bytes": 1.5, "rx_bytes": 2}})),
            raw(line(30, {"eth0": {"tx_bytes": 3}})),
            raw(line(40, {"eth0": {**moved(4), "drops": 1}})),
            raw(line(45, {})),
            raw(line(46, {"eth0": moved(1 << 63)})),
            raw(other),
            raw(line(50, {"eth0": moved(5)}, arm="-")),
            raw(line(60, {"eth0": moved(6)}))[:-9],
        ]
    )
    found, rest, notes = read(text, tmp_path)
    assert told(found)["stock", 0] == {"h0 eth0": [[10, 20, 40], [1, 1, 4], [2, 2, 8]]}
    assert told(found)["a", 0] == {"é eth0": [[7], [5], [10]]}
    assert sorted(each["t_ns"] for each in rest) == [30, 46, 50]
    assert len(notes) == 1 and "line 9" in notes[0]


def test_samples_are_put_in_order_and_the_last_of_a_moment_counts() -> None:
    found = Counters([Sample(30, 3, 3), Sample(10, 1, 1), Sample(30, 4, 4), Sample(20, 2, 2)]).columns()
    assert (found.t_ns.tolist(), found.tx_bytes.tolist()) == ([10, 20, 30], [1, 2, 4])
    assert Counters().ends() == []


def test_a_sample_that_comes_after_a_look_at_the_others_counts() -> None:
    found = Counters([Sample(30, 3, 3), Sample(10, 1, 1)])
    assert found.columns() is found.columns()
    found.add(Sample(20, 2, 2))
    assert (found.columns().t_ns.tolist(), len(found)) == ([10, 20, 30], 3)
    found.extend(*(np.array([value], np.int64) for value in (40, 5, 6)))
    assert (found.columns().rx_bytes.tolist(), len(found)) == ([1, 2, 3, 6], 4)


def test_the_first_and_the_last_sample_stand_for_a_run() -> None:
    found = Samples()
    for n in range(5):
        found.add(line(n, {"eth0": moved(n)}))
    assert [each["nics"]["eth0"]["tx_bytes"] for each in found.ends()] == [0, 4]


def test_a_dip_and_a_burst_of_one_sample_are_kept() -> None:
    """1 Gbit/s with a sample each 10 ms for 100 s: nothing from 40 to 40.01 s, and twice as much just after 70 s."""
    total, rows = 0, [Sample(0, 0, 0)]
    for n in range(1, 10_001):
        total += {4001: 0, 7001: 2}.get(n, 1) * 1_250_000
        rows.append(Sample(n * 10 * MS, total, 0))
    axis = series.Axis(bins=100, bin_ns=1000 * MS)
    sent, received = series.rates_gbit(Counters(rows), 0, axis)
    assert [n for n, low in enumerate(sent.low) if low < 0.5] == [40]
    assert [n for n, high in enumerate(sent.high) if high > 1.5] == [70]
    assert (sent.low[40], sent.high[70]) == (0.0, pytest.approx(2.0))
    assert (sent.mean[40], sent.mean[70]) == (pytest.approx(0.99), pytest.approx(1.01))
    assert (sent.low[10], sent.mean[10], sent.high[10]) == pytest.approx((1.0, 1.0, 1.0))
    assert max(received.high) == 0.0


def test_more_strips_have_fewer_points() -> None:
    many = [Trace(f"arm {n}", 0) for n in range(8)]
    for trace in many:
        trace.iterations = {0: [(0, 3_600_000 * MS)]}
        trace.samples = {NicId("h0", f"eth{n}"): Counters() for n in range(32)}
    assert series.common_axis(many[:1]).bins == series.MAX_BINS
    assert series.common_axis(many).bins * 8 * 32 <= series.MOST_POINTS


@pytest.fixture(scope="module")
def scale() -> Iterator[ModuleType]:
    """The benchmark as a module; it is no package, because it is not installed."""
    sys.path.insert(0, str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("report_scale", BENCHMARKS / "report_scale.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["report_scale"] = module
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(BENCHMARKS))


@pytest.mark.parametrize(("seconds", "hosts"), [(120, 4), (20, 64)])
def test_a_page_keeps_what_lasted_one_sample(scale: ModuleType, tmp_path: Path, seconds: int, hosts: int) -> None:
    """Small ones of benchmarks/report_scale.py, in which a point stands for 40 samples."""
    run = rundir.load(scale.make(tmp_path / "run", scale.Shape(seconds, hosts)))
    page = html.render(run)
    trace = run.traces[0]
    sent, _ = series.rates_gbit(trace.samples[NicId(*scale.BURST)], trace.origin_ns(), series.common_axis([trace]))
    depth, height = scale.kept(page)
    assert depth == 1.0
    assert height == pytest.approx(max(sent.high) / median(sent.high), rel=0.01), "a tenth of a unit is 1 %"
    assert height > 1.8
    assert len(page) < scale.BOUND_BYTES
    moved = run.summary.arms[0].runs[0].bytes_per_nic
    assert moved["h1"]["eth2"]["tx_bytes"] < moved["h1"]["eth0"]["tx_bytes"] < moved["h1"]["eth3"]["tx_bytes"]


@pytest.mark.parametrize("bins", [1, 10, 100])
def test_the_usual_peak_is_of_most_bytes_however_long_a_bin_is(bins: int) -> None:
    """100 s: nothing much until 50 s, then 1 Gbit/s in every second 10 ms, at 70 s once five times as much."""
    n = np.arange(10_000)
    moved = np.select([n == 7001, n < 5000, n % 2 == 1], [6_250_000, 1000, 1_250_000], 0)
    counters = Counters()
    counters.extend(np.arange(10_001) * 10 * MS, np.concatenate(([0], np.cumsum(moved))), np.zeros(10_001, np.int64))
    sent, received = series.rates_gbit(counters, 0, series.Axis(bins, 100_000 // bins * MS))
    assert series.usual_peak(sent) == pytest.approx(5.0 if bins == 1 else 1.0)
    assert series.usual_peak(received) == 0.0
