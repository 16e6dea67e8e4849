"""From counters, gaps and events to points, rates and words: on literal numbers."""

from __future__ import annotations

import pytest

from reports.charts import iterations as chart_iterations
from reports.charts import svg
from reports.reading import series
from reports.reading.counters import Counters, Sample
from reports.reading.trace import Delivery, NicId, Trace
from reports.words import events, units

MS = 1_000_000


def samples(*points: tuple[int, int]) -> Counters:
    return Counters(Sample(at * MS, total, total) for at, total in points)


def test_rate_is_bits_per_second_of_each_bin() -> None:
    axis = series.Axis(bins=2, bin_ns=50 * MS)
    steady = samples(*[(t, t * 125_000) for t in range(0, 101, 10)])
    tx, rx = series.rates_gbit(steady, 0, axis)
    assert tx.mean == pytest.approx([1.0, 1.0])
    assert rx.mean == pytest.approx([1.0, 1.0])


def test_a_silent_counter_is_drawn_as_zero_and_not_as_a_slope() -> None:
    """The sampler says nothing while a counter stands still; the outage from 10 to 190 ms must stay empty."""
    axis = series.Axis(bins=4, bin_ns=50 * MS)
    tx, _ = series.rates_gbit(samples((0, 0), (10, 1_250_000), (200, 2_500_000)), 0, axis)
    assert tx.mean == pytest.approx([0.2, 0.0, 0.0, 0.2])


def test_a_counter_that_restarts_is_never_a_negative_rate() -> None:
    axis = series.Axis(bins=2, bin_ns=50 * MS)
    tx, _ = series.rates_gbit(samples((0, 9_000_000), (50, 9_500_000), (60, 0), (100, 100_000)), 0, axis)
    assert min(tx.low) >= 0.0


def test_bytes_between_two_moments() -> None:
    counted = samples((0, 0), (10, 1000), (20, 2000))
    assert series.bytes_between(counted, 5 * MS, 15 * MS) == series.Span(1000, 1000, 0.01)
    assert series.bytes_between(Counters(), 0, MS).tx_bytes == 0


def test_longest_wait_covers_every_bin_that_a_gap_overlaps() -> None:
    axis = series.Axis(bins=4, bin_ns=50 * MS)
    stalled = Delivery(0, [5_000.0, 120_000.0, 1_000.0])
    assert series.longest_wait_ms([stalled], 0, axis) == [120.0, 120.0, 120.0, 0.0]


def test_longest_gap_around_a_fault() -> None:
    """From 5 to 45 ms in one connection, 40 to 48 in the other; the longer one that ended before does not count."""
    one = Delivery(-100 * MS, [80_000.0, 25_000.0, 40_000.0, 1_000.0])
    other = Delivery(0, [40_000.0, 8_000.0])
    assert series.longest_gap_ms([one, other], 42 * MS, 43 * MS) == (pytest.approx(-37.0), pytest.approx(3.0))
    assert series.longest_gap_ms([one, other], 47 * MS, 47 * MS) == (pytest.approx(-7.0), pytest.approx(1.0))
    assert series.longest_gap_ms([], 0, 1) is None


def test_the_axis_fits_the_longest_run_in_a_readable_number_of_bins() -> None:
    short, long = Trace("a", 0), Trace("b", 0)
    short.iterations = {0: [(0, 100 * MS)]}
    long.iterations = {0: [(0, 60_000 * MS)]}
    axis = series.common_axis([short, long])
    assert axis.span_s >= 60.0 and axis.bins <= series.MAX_BINS
    assert series.common_axis([short]).bin_ns == series.MIN_BIN_NS
    assert series.common_axis([]).bins >= 1


def test_ticks() -> None:
    assert svg.nice_ticks(0, 12.7, 6) == [0, 2.5, 5, 7.5, 10, 12.5]
    assert svg.nice_ticks(3, 3) == [3]
    assert svg.log_ticks(1, 1000) == [1, 10, 100, 1000]
    assert svg.log_ticks(150, 700) == [200, 500]


def test_scales_clamp() -> None:
    log = svg.Scale(1, 1000, 0, 300, log=True)
    assert [log(v) for v in (0, 1, 10, 1e9)] == [0, 0, 100, 300]
    assert svg.Scale(5, 5, 10, 20)(5) == 10


def test_svg_escapes_what_it_is_given() -> None:
    assert svg.text(1, 2, '<b>&"') == '<text x="1" y="2" class="tick">&lt;b&gt;&amp;&quot;</text>'
    assert 'class="&quot;&gt;&lt;"' in svg.line(0, 0, 1, 1, '"><')
    assert svg.path([(0, 0), (10, 0), (10, 5), (12, 6)], "x") == '<path d="M0 0h10v5l2 1" class="x"/>'


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0.04, "0.0 ms"),
        (7.42, "7.4 ms"),
        (99.96, "100 ms"),
        (999.4, "999 ms"),
        (999.6, "1.0 s"),
        (4118, "4.1 s"),
    ],
)
def test_durations_as_people_read_them(value: float | None, shown: str) -> None:
    assert units.ms(value) == shown


def test_sizes_and_counts() -> None:
    assert [units.size(v) for v in (0, 999, 1_500, 2_500_000, 1_003_200_000)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "2.5 MB",
        "1.00 GB",
    ]
    assert units.limit(10.0) == "10 ms" and units.limit(2500) == "2.5 s"


def test_long_runs_keep_their_slowest_iterations() -> None:
    times = dict.fromkeys(range(1000), 10.0) | {777: 900.0}
    drawn = chart_iterations.thin(times, most=100)
    assert len(drawn) == 100 and 777 in drawn


def path(t_ms: float, connection: str, state: str = "active", replayed: int = 0) -> dict[str, object]:
    fields = {
        "host": "h1",
        "connection": connection,
        "nic": "eth3",
        "epoch": 2,
        "cause": "netlink",
        "replayed": replayed,
    }
    return {"event": "path", "t_ns": int(t_ms * MS), "state": state, **fields}


def test_like_path_changes_share_a_row_and_add_up() -> None:
    trace = Trace("migrate", 0)
    fault = {"event": "fault", "host": "h1", "nic": "eth2", "kind": "link_down", "id": "x"}
    trace.add({**fault, "t_ns": 0, "phase": "injected"})
    trace.add(path(5.0, "a", replayed=3))
    trace.add(path(5.4, "b", replayed=4))
    trace.add(path(5.5, "c", state="failed"))
    trace.add(path(90.0, "d"))
    rows, more = events.rows(trace)
    assert more == 0
    assert [row.what for row in rows] == [
        "link_down on eth2: injected",
        "2 connections active on eth3, epoch 2, 7 messages sent again (netlink)",
        "connection c failed on eth3, epoch 2 (netlink)",
        "connection d active on eth3, epoch 2 (netlink)",
    ]
    assert rows[1].after_fault == "+5.0 ms"


def test_a_flood_of_events_is_cut_and_says_so() -> None:
    trace = Trace("migrate", 0)
    for number in range(events.MAX_ROWS + 30):
        trace.add({"event": "log", "host": "h0", "t_ns": number, "message": "x" * 1000})
    rows, more = events.rows(trace)
    assert (len(rows), more) == (events.MAX_ROWS, 30)
    assert len(rows[0].what) == events.MAX_MESSAGE


def test_windows_of_a_flap_and_of_a_fault_that_never_ended() -> None:
    trace = Trace("migrate", 0)
    for t_ms, phase in [(1, "armed"), (2, "injected"), (3, "active"), (5, "reverted"), (7, "injected")]:
        trace.add(
            {
                "event": "fault",
                "id": "f",
                "kind": "flap",
                "host": "h1",
                "nic": "eth2",
                "phase": phase,
                "t_ns": t_ms * MS,
            }
        )
    assert [(w.start_ns, w.end_ns) for w in trace.windows()] == [(2 * MS, 5 * MS), (7 * MS, None)]
    assert trace.windows()[0].target == NicId("h1", "eth2")


def test_split_deliveries_are_joined_and_warm_up_is_left_out() -> None:
    trace = Trace("stock", 0)
    line = {"event": "delivery", "host": "h0", "rank": 0, "connection": 3, "start_ns": 0, "t_ns": 0}
    trace.add({**line, "index": -1, "gaps_us": [1.0]})
    trace.add({**line, "index": 0, "gaps_us": [1.0, 2.0]})
    trace.add({**line, "index": 0, "gaps_us": [3.0], "part": 1})
    assert [d.gaps_us for per in trace.deliveries.values() for d in per] == [[1.0, 2.0, 3.0]]


def test_iterations_that_a_rank_did_not_finish_do_not_count() -> None:
    trace = Trace("stock", 0)
    trace.add({"event": "bench_start", "host": "h0", "ranks": 2, "t_ns": 0})
    for rank, index, end_ms in [(0, 0, 10), (1, 0, 14), (0, 1, 30)]:
        span = {"start_ns": 0, "end_ns": end_ms * MS, "t_ns": end_ms * MS}
        trace.add({"event": "iteration", "host": f"h{rank}", "rank": rank, "index": index, **span})
    assert trace.iteration_ms() == {0: 14.0}


def test_what_a_nic_moved_in_several_stretches_is_what_it_moved_in_each() -> None:
    samples = Counters(Sample(n * 10 * MS, n * n * 1000, n * 500) for n in range(50))
    stretches = [(5 * MS, 15 * MS), (100 * MS, 333 * MS), (0, 490 * MS)]
    assert series.moved(samples, stretches) == [series.bytes_between(samples, *stretch) for stretch in stretches]
    assert series.moved(samples, []) == []
    assert series.moved(Counters(), stretches[:1]) == [series.Span(0, 0, 0.01)]
