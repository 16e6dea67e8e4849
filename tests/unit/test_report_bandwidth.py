"""The strips of the NICs: as high as a NIC's rate, or as what is usual leaves room for, where no rate is known."""

from __future__ import annotations

import re

import numpy as np
import pytest

from reports.charts import bandwidth as chart_bandwidth
from reports.charts.frame import Figure
from reports.reading.counters import Counters, Sample
from reports.reading.nic_rates import rates_gbit
from reports.reading.trace import NicId, Trace

MS = 1_000_000
NIC = NicId("h1", "eth0")


def trace(*, burst: bool, told: float | None = None) -> Trace:
    """0.5 Gbit/s for a second; with `burst` 2.5 MB of it leave in the millisecond at 500 ms: 20 Gbit/s."""
    made = Trace("migrate", 0, iterations={0: [(0, 1000 * MS)]}, ranks=1)
    moments = [(ms, ms * 62_500) for ms in range(0, 1001, 10)]
    if burst:
        moments = sorted([*moments, (501, 500 * 62_500 + 2_500_000)])
        moments = [(ms, max(sent, 500 * 62_500 + 2_500_000) if ms > 501 else sent) for ms, sent in moments]
    made.samples = {NIC: Counters(Sample(ms * MS, sent, 0) for ms, sent in moments)}
    if told is not None:
        made.events.append({"event": "run_start", "t_ns": 0, "nics": {"h1": {"eth0": {"rate_gbit": told}}}})
    return made


def drawn(figure: Figure) -> str:
    return figure.panels[0].svg


def ordinates(path: str) -> list[float]:
    """Those of the points of a path that begins with M."""
    y, found = 0.0, []
    for step, first, second in re.findall(r"([Mhlv])(-?[\d.]+)(?: (-?[\d.]+))?", path):
        y += float(second) if step in "Ml" else float(first) if step == "v" else 0.0
        found.append(y)
    return found


def heights(svg: str) -> list[float]:
    """How far the area of the sent bytes reaches up, in units of a strip."""
    path = re.search(r'<path d="([^"]+)" class="area', svg)
    assert path is not None
    found = ordinates(path[1])
    return [(max(found) - value) / 50.0 for value in found]


def band_tops(svg: str) -> list[float]:
    """The highest point of each strip's band, in units of a strip."""
    strips = re.findall(r'<path d="([^"]+)" class="area[^>]*><path d="([^"]+)" class="band', svg)
    return [(max(ordinates(area)) - min(ordinates(band))) / 50.0 for area, band in strips]


@pytest.mark.parametrize("burst", [False, True])
def test_a_strip_is_as_high_as_the_rate_of_its_nic(burst: bool) -> None:
    figure = chart_bandwidth.figure([trace(burst=burst)], [NIC], {NIC: 0.7})
    assert "Every strip goes from 0 to 0.70 Gbit/s, the rate of the fastest NIC" in figure.caption
    assert sorted(heights(drawn(figure)))[-8] == pytest.approx(0.5 / 0.7, abs=0.02), "half a Gbit/s is seen"
    assert ('class="above"' in drawn(figure)) is burst
    assert ("above" in [key.cls for key in figure.keys]) is burst


def test_what_lies_above_is_marked_with_its_rate() -> None:
    figure = chart_bandwidth.figure([trace(burst=True)], [NIC], {NIC: 0.7})
    assert "marks bursts above that, up to 20.00 Gbit/s" in figure.caption
    marks = re.findall(r'<rect [^>]*class="above"><title>([^<]+)</title>', drawn(figure))
    assert marks == ["up to 20.00 Gbit/s"]


def test_a_rate_that_is_not_known_is_the_highest_that_was_seen() -> None:
    figure = chart_bandwidth.figure([trace(burst=False)], [NIC], {})
    assert "Every strip goes from 0 to 0.50 Gbit/s, the highest rate between two samples" in figure.caption
    nothing = Trace("migrate", 0, iterations={0: [(0, MS)]}, ranks=1)
    nothing.samples = {NIC: Counters([Sample(0, 0, 0), Sample(MS, 0, 0)])}
    assert "above" not in drawn(chart_bandwidth.figure([nothing], [NIC], {}))
    empty = Trace("migrate", 0, iterations={0: [(0, MS)]}, ranks=1)
    assert "Every strip goes from 0 to 0.00" in chart_bandwidth.figure([empty], [], {}).caption


def test_a_burst_of_40_times_what_is_usual_leaves_the_usual_to_be_seen() -> None:
    figure = chart_bandwidth.figure([trace(burst=True)], [NIC], {})
    assert "Every strip goes from 0 to 1.50 Gbit/s, room for all but rare bursts" in figure.caption
    assert "marks bursts above that, up to 20.00 Gbit/s" in figure.caption
    assert sorted(heights(drawn(figure)))[-8] == pytest.approx(1 / 3, abs=0.02)


@pytest.mark.parametrize("hosts", [1, 8, 128])
def test_a_burst_of_one_sample_is_in_the_band_at_any_number_of_hosts(hosts: int) -> None:
    """1 Gbit/s for 100 s and twice as much for 10 ms: where points stood for seconds, the band ended at the top."""
    moments = np.arange(10_001) * 10 * MS
    steady = np.full(10_000, 1_250_000)
    burst = np.where(np.arange(10_000) == 7000, 2, 1) * steady
    made = Trace("migrate", 0, iterations={0: [(0, 100_000 * MS)]}, ranks=1)
    for nic in [NicId(f"h{host}", f"eth{n}") for host in range(hosts) for n in range(4)]:
        sent = np.concatenate(([0], np.cumsum(burst if nic == NicId("h0", "eth2") else steady)))
        made.samples[nic] = Counters()
        made.samples[nic].extend(moments, sent, sent)
    figure = chart_bandwidth.figure([made], [NicId("h0", "eth0")], {})
    assert band_tops(drawn(figure)) == pytest.approx([0.5, 0.5, 1.0, 0.5], abs=0.003)
    assert "above" not in drawn(figure)


def test_where_the_rate_of_a_nic_comes_from() -> None:
    topology = {"hosts": 2, "nics": 1, "rate_gbit": 0.7, "overrides": [{"host": "h1", "nic": "eth0", "rate_gbit": 0.2}]}
    assert rates_gbit([trace(burst=False, told=0.3)], {"topology": topology}, "lab") == {NIC: 0.3}
    assert rates_gbit([trace(burst=False)], {"topology": topology}, "lab") == {NIC: 0.2}
    assert rates_gbit([trace(burst=False)], {"topology": "default"}, "lab") == {NIC: 1.0}
    assert rates_gbit([trace(burst=False)], {"topology": topology}, "cluster") == {}
    for odd in ("nowhere", {"hosts": "many"}, None, 5):
        assert rates_gbit([trace(burst=False)], {"topology": odd}, "lab") == {}
    broken = trace(burst=False)
    broken.events += [
        {"event": "run_start", "t_ns": 0, "nics": odd} for odd in (None, [], {"h1": 5}, {"h1": {"eth0": 1}})
    ]
    assert rates_gbit([broken], {}, "cluster") == {}
