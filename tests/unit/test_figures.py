"""Figures from a journal written down by hand; every number here is computed by hand in the comment next to it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import chaos_literal as literal
import pytest

from chaos.analysis import void
from chaos.analysis.bounds import loads
from chaos.analysis.figures import busbw_GBps, longest_ms, run_figures
from chaos.analysis.paths import carriers, match
from chaos.analysis.phases import degraded_indices, healthy_indices, hit_index
from chaos.analysis.rundata import FaultTimes, RunData, Span, read_run
from chaos.analysis.stall import longest_gap_ms, onsets, stall_ms
from chaos.analysis.stats import median, percentile, spread
from chaos.analysis.verdict import run_checks
from chaos.experiment.model import Hypothesis


def figures(arm: str, **options: object) -> dict[str, object]:
    mode = 1 if arm == "migrate" else 0
    return asdict(run_figures(read_run(literal.lines(arm, **options)), mode, iterations=10))  # type: ignore[arg-type]


def fault(arm: str) -> dict[str, object]:
    found = figures(arm)["faults"]
    assert isinstance(found, list)
    assert len(found) == 1
    return dict(found[0])


def test_phases_of_the_migrate_arm() -> None:
    data = read_run(literal.lines("migrate"))
    (cable,) = data.faults
    assert healthy_indices(data) == [0, 1, 2, 3]  # 4 had begun when the fault struck
    assert hit_index(data, cable) == 4
    assert degraded_indices(data, cable) == [5, 6]  # 7 ended after the undo


@pytest.mark.parametrize(("after_last_ms", "index"), [(-1, 4), (1, None)])
def test_a_command_that_returned_after_the_last_iteration_may_have_struck_nothing(
    after_last_ms: int, index: int | None
) -> None:
    """It was issued in iteration 4, but over SSH it may take effect seconds later."""
    lines = literal.lines("migrate")
    last_ns = max(line["end_ns"] for line in lines if line["event"] == "iteration")
    for line in lines:
        if line["event"] == "fault" and line["phase"] == "injected":
            line["after_ns"] = last_ns + after_last_ms * 1_000_000
    data = read_run(lines)
    assert hit_index(data, data.faults[0]) == index


def test_stall_is_the_longest_gap_at_the_onset_less_the_usual_one() -> None:
    assert fault("migrate")["stall_ms"] == 20.0  # r1: 30 ms from 1440 to 1470, usual p99 gap 10 ms; r0: 10 - 10
    assert fault("stock")["stall_ms"] == 560.0  # 570 - 10


def test_stall_of_a_gap_that_began_after_the_command_but_before_the_probe_counts() -> None:
    lines = literal.lines("migrate")
    for line in lines:
        if line["event"] == "delivery" and line["index"] == 4 and line["connection"] == "r1" and line["part"] == 0:
            line["gaps_us"] = [10_000.0, 10_000.0, 10_000.0, 10_000.0, 14_000.0, 60_000.0]  # stands still from 1454
    data = read_run(lines)
    assert stall_ms(data, data.faults[0]) == 50.0  # active (confirmed) at 1455: the gap 1454 to 1514 overlaps the onset


@pytest.mark.parametrize(("begins_ms", "stall"), [(1550, 70.0), (1560, 0.0)])
def test_stall_that_begins_when_receive_buffers_are_empty_counts(begins_ms: int, stall: float) -> None:
    """Confirmed at 1455: the 100 ms after it belong to the onset, and no more."""
    data = read_run(literal.lines("migrate"))
    key = next(iter(data.deliveries))
    usual = {index: spans for index, spans in data.deliveries[key].items() if index < 4}
    late = Span(literal.ns(begins_ms), literal.ns(begins_ms + 80))
    data.deliveries = {key: usual | {4: [Span(literal.ns(1445), literal.ns(1455)), late]}}
    assert stall_ms(data, data.faults[0]) == stall


def test_stall_without_any_healthy_gap_is_unknown_not_zero() -> None:
    lines = [line for line in literal.lines("migrate") if line["event"] != "delivery" or line["index"] >= 4]
    data = read_run(lines)
    assert stall_ms(data, data.faults[0]) is None


def test_longest_gap_sees_what_began_after_the_onset() -> None:
    data = read_run(literal.lines("migrate"))
    assert longest_gap_ms(data, data.faults[0]) == 20.0
    for line in data.by_event["delivery"]:
        if line["index"] == 6 and line["part"] == 0:
            line["gaps_us"] = [90_000.0, *line["gaps_us"][1:]]
    later = read_run(data.lines)
    assert longest_gap_ms(later, later.faults[0]) == 80.0
    assert stall_ms(later, later.faults[0]) == 20.0


def test_detection_counts_from_the_command() -> None:
    assert fault("migrate")["detect_ms"] == 3.5  # nic line at 1448.5, command issued at 1445
    assert fault("stock")["detect_ms"] is None


def test_a_slow_nic_is_detected_when_it_is_said_to_be_degraded() -> None:
    lines = [line for line in literal.lines("migrate") if line["event"] != "path"]
    for line in lines:
        if line["event"] == "nic" and line["state"] == "down":
            line["state"], line["cause"] = "degraded", "rate"
    found = asdict(run_figures(read_run(lines), 1, iterations=10))["faults"]
    assert found[0]["detect_ms"] == 3.5


def test_failover_iteration_and_its_bound() -> None:
    found = fault("migrate")
    assert found["at_iteration"] == 4
    assert found["hit"] is True
    assert found["iteration_ms"] == 168.0
    # Before the fault (the command returned at 1447) 47 ms. Left: 5.3 chunks of each of two connections, all 10.6 of a
    # host on eth0, which carries 10 in 100 ms.
    assert found["iteration_bound_ms"] == 153.0
    assert fault("stock")["iteration_bound_ms"] is None  # a stock iteration is bound by the outage, not by a mode


BESIDE = ((5, 0, 900), (5, 100, 800), (3, 0, 900), (1, 0, 0), (3, 950, 0))
EARLY = ((1, 0, 900, [1, 3]), (1, 0, 0, [1, 2]), (1, 100, 800, [1, 3]))


@pytest.mark.parametrize(("beside", "noise", "longest", "row"), [*((*case, None) for case in BESIDE), *EARLY])
def test_a_stall_of_what_a_program_does_not_time_counts_to_the_longest(
    beside: int, noise: int, longest: int, row: list[int] | None
) -> None:
    """The cable strikes iteration 4; what stalled 900 ms lies beside 5, before 4, long before, or (4.7 ms were the
    longest) beside an early one of a row that ends where it struck. `noise` ms are usual where no fault is."""
    data = read_run(literal.lines("migrate"))
    usual = longest_ms(data, data.faults[0])
    assert usual is not None
    for line in data.by_event["iteration"]:
        if line["index"] == beside:
            line.update({"beside_ms": 900.0, **({"row": row} if row else {})})
        if line["index"] == 0 and noise:
            line["beside_ms"] = float(noise)
    own = data.durations_ms[beside] if beside == 5 else 0.0
    assert longest_ms(data, data.faults[0]) == max(usual, own + longest)


def test_bound_follows_the_paths_and_is_no_constant() -> None:
    """With nothing moved (no `path` lines) the same bytes fit: the bound is a healthy iteration."""
    lines = [line for line in literal.lines("migrate") if line["event"] != "path"]
    (found,) = asdict(run_figures(read_run(lines), 1, iterations=10))["faults"]
    assert found["iteration_bound_ms"] == 100.0  # 47 + 5.3 chunks at 10 ms
    assert found["degraded_bound_ms"] == 100.0


def test_bound_of_balance_spreads_over_all_survivors() -> None:
    (found,) = asdict(run_figures(read_run(literal.lines("migrate")), 2, iterations=10))["faults"]
    assert found["iteration_bound_ms"] == 153.0  # 47 + 53 * 2 / (2 - 1)
    assert found["degraded_bound_ms"] == 200.0


def test_carriers_change_with_time() -> None:
    data = read_run(literal.lines("migrate"))
    chunks = dict.fromkeys(data.deliveries, 10.0)
    before = loads(carriers(data, literal.ns(1440)), chunks)
    while_down = loads(carriers(data, literal.ns(1800)), chunks)
    back = loads(carriers(data, literal.ns(2100)), chunks)
    assert before == back
    assert before[("h1", "eth1"), "rx"] == 10.0
    assert while_down == {((host, "eth0"), way): 20.0 for host in ("h0", "h1") for way in ("rx", "tx")}


def renumbered(with_addresses: bool) -> list[literal.Line]:
    """As the net library really writes: own numbers, the peer by address, its NIC by index, the home NIC, `closed`."""
    nics = {host: {"eth0": {"address": f"10.1.0.{i + 1}"}} for i, host in enumerate(("h0", "h1"))}
    lines = literal.lines("migrate")
    for line in lines:
        if line["event"] == "run_start" and with_addresses:
            line["nics"] = nics
        if line["event"] == "path":
            peer = "10.1.0.2" if line["host"] == "h0" else "10.1.0.1"
            line.update(connection=7, home_nic="eth1", peer_nic=int(line["nic"][3]), peer=peer)
    begin = literal.at(991, "h1", "path", connection=6, direction="recv", nic="", home_nic="eth0", state="exchanging")
    end = literal.at(2400, "h1", "path", connection=7, direction="recv", nic="eth1", home_nic="eth1", state="closed")
    return [*lines, *({**line, "arm": "migrate", "run": 0, "schema": 1} for line in (begin, end))]


@pytest.mark.parametrize("with_addresses", [True, False])
def test_connections_that_the_net_library_numbers_on_its_own_are_matched_by_home_nic(with_addresses: bool) -> None:
    data = read_run(renumbered(with_addresses))
    assert match(data) == {("h0", "10.1.0.2", "7"): (0, "r1"), ("h1", "10.1.0.1", "7"): (1, "r1")}
    (found,) = asdict(run_figures(data, 1, iterations=10))["faults"]
    assert (found["iteration_bound_ms"], found["degraded_bound_ms"]) == (153.0, 200.0)


def test_degraded_after_and_return() -> None:
    found = fault("migrate")
    assert found["degraded_ms"] == 200.0
    assert found["degraded_bound_ms"] == 200.0  # 20 chunks on eth0 instead of 10
    assert found["after_ms"] == 102.5  # 105 and 100
    assert found["return_ms"] == 223.0  # iteration 8 (105 ms) is slower than 100 / 0.98; iteration 9 begins at 2223
    stock = fault("stock")
    assert (stock["degraded_ms"], stock["after_ms"], stock["return_ms"]) == (None, 100.0, 65.0)


def test_run_level_figures() -> None:
    found = figures("migrate")
    assert found["completed"] is True
    assert found["iterations"] == 10
    assert found["healthy_ms"] == {"median": 100.0, "p99": 100.0}
    per_nic = {"tx_bytes": 100_000, "rx_bytes": 200_000}
    assert found["bytes_per_nic"] == {host: {"eth0": per_nic, "eth1": per_nic} for host in ("h0", "h1")}
    metrics = {entry["name"]: entry["value"] for entry in found["metrics"]}  # type: ignore[attr-defined]
    assert metrics["rank_memory"] == 53_001_000
    assert metrics["cpu_busy"] == 0.5
    assert metrics["busbw"] == pytest.approx(0.0002)  # 20000 B in 100 ms, times 2 (n - 1) / n = 1
    assert found["void"] == []


def test_bus_bandwidth_counts_all_reduces_in_a_row() -> None:
    lines = [{**line, "in_a_row": 16} if line["event"] == "bench_start" else line for line in literal.lines("migrate")]
    assert busbw_GBps(read_run(lines)) == pytest.approx(16 * 0.0002)


def test_a_run_cut_short_is_incomplete_but_readable() -> None:
    found = figures("migrate", iterations=6)
    assert found["completed"] is False
    assert found["iterations"] == 6


def test_an_iteration_that_one_rank_did_not_finish_is_not_whole() -> None:
    lines = [
        line
        for line in literal.lines("migrate")
        if not (line["event"] == "iteration" and line["rank"] == 1 and line["index"] == 9)
    ]
    found = asdict(run_figures(read_run(lines), 1, iterations=10))
    assert (found["iterations"], found["completed"]) == (9, False)


def test_wrong_elements_are_counted_over_all_ranks() -> None:
    lines = literal.lines("migrate")
    for line in lines:
        if line["event"] == "iteration" and line["index"] in (2, 6):
            line["wrong_elements"] = 3
    assert asdict(run_figures(read_run(lines), 1, iterations=10))["wrong_elements"] == 12


def test_a_fault_between_iterations_did_not_hit() -> None:
    lines = literal.lines("migrate")
    for line in lines:
        if line["event"] == "fault" and line["phase"] == "injected":
            line |= {"before_ns": literal.ns(950), "after_ns": literal.ns(952)}
    (found,) = asdict(run_figures(read_run(lines), 1, iterations=10))["faults"]
    assert (found["hit"], found["at_iteration"], found["stall_ms"]) == (False, None, None)


@pytest.mark.parametrize(("share", "is_void"), [(0.85, False), (0.86, True)])
def test_void_when_the_machine_is_too_busy(share: float, is_void: bool) -> None:
    lines = literal.lines("migrate")
    for line in lines:
        if line["event"] == "cpu":
            line["busy"] = share
    assert bool(void.reasons(read_run(lines))) is is_void


@pytest.mark.parametrize(("share", "is_void"), [(0.09, False), (0.12, True)])
def test_void_when_a_hypervisor_took_the_cpu(share: float, is_void: bool) -> None:
    lines = literal.lines("migrate")
    for line in lines:
        if line["event"] == "cpu":
            line["stolen"] = share
    told = void.reasons(read_run(lines))
    assert told == (["a hypervisor gave 12% of the machine's CPU to others (limit 10%)"] if is_void else [])


def test_only_the_iterations_are_judged_not_the_time_between_them() -> None:
    spans = [Span(literal.ns(0), literal.ns(100)), Span(literal.ns(200), literal.ns(300))]
    shares = {0: 1.0, 100: 0.5, 200: 1.0, 250: 0.6, 350: 0.8}
    lines = [literal.at(ms, "h0", "cpu", busy=share) for ms, share in shares.items()]
    assert void.busy(read_run(lines), spans) == pytest.approx((0.5 * 100 + 0.6 * 50 + 0.8 * 50) / 200)
    assert void.busy(read_run(lines), []) is None


def test_what_a_hypervisor_took_around_the_onset_is_told() -> None:
    lines = [line for line in literal.lines("migrate") if line["event"] != "cpu"]
    assert asdict(run_figures(read_run(lines), 1, iterations=10))["faults"][0]["stolen"] is None  # nobody looked
    data = read_run(lines)
    (onset,) = onsets(data.faults[0])
    begin, middle, end = (ns / 1e6 for ns in (onset.start_ns, (onset.start_ns + onset.end_ns) / 2, onset.end_ns))
    for ms, share in ((0, 0.0), (begin, 1.0), (middle, 0.5), (end, 0.1)):
        lines.append(literal.at(ms, "h0", "cpu", busy=1.0, stolen=share))
    (found,) = asdict(run_figures(read_run(lines), 1, iterations=10))["faults"]
    assert found["stolen"] == pytest.approx(0.3)  # half the window 0.5, half 0.1; 1.0 before it is not of it


def test_idle_seconds_of_a_stall_do_not_hide_a_busy_machine() -> None:
    lines = literal.lines("stock")
    busy = [literal.at(ms, "h0", "cpu", busy=0.95) for ms in (1000, 1150, 1300, 1450)]
    idle = [literal.at(1500 + 10 * i, "h0", "cpu", busy=0.0) for i in range(50)]
    data = read_run([line for line in lines if line["event"] != "cpu"] + busy + idle)
    assert void.cpu_busy(data) == pytest.approx(0.95)


@pytest.mark.parametrize(("fourth_ms", "is_void"), [(114, False), (140, True)])
def test_void_when_healthy_iterations_vary(fourth_ms: int, is_void: bool) -> None:
    # p10 = 100, p50 = 100, p90 = 100 + 0.7 * (x - 100): 9.8 % and 28 %
    data = read_run(literal.lines("migrate", durations=[100, 100, 100, fourth_ms, 168, 200, 200, 150, 105, 100]))
    assert len(healthy_indices(data)) == 4
    assert bool(void.reasons(data)) is is_void


def test_percentiles_interpolate() -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], 50) == 2.5
    assert percentile([1.0, 2.0, 3.0, 4.0, 5.0], 99) == pytest.approx(4.96)
    assert percentile([], 50) is None
    assert median([7.0]) == 7.0
    assert spread([90.0, 100.0, 110.0]) == pytest.approx(0.16)  # p10 = 92, p90 = 108
    assert spread([]) is None


def test_empty_and_truncated_journals_give_figures_not_crashes() -> None:
    lines = literal.lines("migrate")
    for count in range(0, len(lines), 7):
        found = asdict(run_figures(read_run(lines[:count]), 1, iterations=10))
        assert found["completed"] is False


def test_a_stall_is_what_nccl_counts_where_it_does() -> None:
    """Of the rank that stood still longest, less what it did at most before the fault; lines of a stall grow."""
    ms = 1_000_000

    def traffic(rank: int, began_ms: int, lasted_ms: float) -> dict[str, Any]:
        return {
            "event": "traffic", "t_ns": 0, "rank": rank,
            "stall_began_ns": began_ms * ms, "stall_us": lasted_ms * 1000,
        }  # fmt: skip

    fault = FaultTimes("f", "link_down", "h1", "eth0", (Span(1000 * ms, 1005 * ms),), (3000 * ms,), 1005 * ms, False)
    lines = [traffic(0, 500, 4.0), traffic(1, 600, 1.0), traffic(1, 1002, 500.0), traffic(1, 1002, 1800.0)]
    lines += [traffic(0, 1001, 90.0), traffic(0, 5000, 9000.0), traffic(0, 0, 0.0)]
    assert stall_ms(RunData([], {"traffic": lines}), fault) == 1799.0
    assert stall_ms(RunData([], {"traffic": lines[:2]}), fault) == 0.0
    assert stall_ms(RunData([], {}), fault) is None


def foreign(**end: Any) -> RunData:
    """A run of a program that is not ours: one step."""
    place = {"host": "h0", "rank": 0, "t_ns": 1}
    return read_run(
        [
            {**place, "event": "bench_start", "op": "command", "ranks": 1, "nics": [], "connections": [], "bytes": 0},
            {**place, "event": "iteration", "index": 0, "start_ns": 1, "end_ns": 2, "wrong_elements": 0},
            {**place, "event": "bench_end", "completed": 1, "wrong_elements": 0, "max_rss_bytes": 0, **end},
            {"host": "controller", "t_ns": 3, "event": "run_end", "exit_codes": {"rank0": 0}, "outcome": "finished"},
        ]
    )


@pytest.mark.parametrize("op", ["allreduce", "command"])
@pytest.mark.parametrize("code", [-15, 139, None])
def test_a_rank_that_does_not_end_well_after_its_last_iteration_has_not_completed(op: str, code: int | None) -> None:
    """One that hangs when it destroys its communicator is killed in the end: that is harm, and no success."""
    data = foreign()
    data.by_event["bench_start"][0]["op"] = op
    assert run_figures(data, 2, iterations=9).completed
    data.by_event["run_end"][-1]["exit_codes"] = {"rank0": code}
    found = run_figures(data, 2, iterations=9)
    assert not found.completed
    assert f"rank0 ended with exit code {code}, after all ranks had done their work" in found.errors


def test_an_end_that_says_something_else_is_no_late_death() -> None:
    """Wrong elements have a code of their own, Ctrl-C ends healthy ranks, and who never began has done nothing."""
    wrong = foreign()
    wrong.by_event["bench_start"][0]["op"] = "allreduce"
    wrong.by_event["run_end"][-1]["exit_codes"] = {"rank0": 1}
    wrong.by_event["iteration"][0]["wrong_elements"] = wrong.by_event["bench_end"][0]["wrong_elements"] = 3
    found = run_figures(wrong, 2, iterations=9)
    assert (found.completed, found.wrong_elements, found.errors) == (True, 3, [])
    stopped = foreign()
    stopped.by_event["bench_start"][0]["op"] = "allreduce"
    stopped.by_event["run_end"][-1].update(exit_codes={"rank0": -15}, outcome="interrupted")
    assert run_figures(stopped, 2, iterations=9).errors == []
    never = read_run([{**stopped.by_event["run_end"][-1], "outcome": "finished", "exit_codes": {"rank0": 3}}])
    assert run_figures(never, 2, iterations=9).errors == []


def test_elements_that_nobody_compared_are_not_judged() -> None:
    """That none was wrong would hold whatever the program did."""
    nobody = run_figures(foreign(), 2, iterations=9)
    assert (nobody.checked, nobody.heard) == (False, False)
    assert [check.name for check in run_checks(nobody, Hypothesis(), 2)] == ["completes"]
    compared = run_figures(foreign(checked=True), 0, iterations=9)
    assert (compared.checked, compared.heard) == (None, None)
    assert [check.name for check in run_checks(compared, Hypothesis(), 0)] == ["exact", "completes"]


def test_a_line_of_the_library_shows_that_it_was_there() -> None:
    data = foreign()
    data.by_event["net_end"] = [{"event": "net_end", "host": "h0", "t_ns": 2, "failovers": 0, "failbacks": 0}]
    assert run_figures(data, 2, iterations=9).heard is None
