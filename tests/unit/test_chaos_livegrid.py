"""The live grid: what it shows of a stream of journal lines at each moment, on a terminal and as plain lines."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from chaos.experiment.file import load
from chaos.faults.spec import FaultSpec
from chaos.record.grid import Grid, view
from chaos.record.journal import read
from chaos.record.live import Live, Plain

ROOT = Path(__file__).parents[2]
MS = 1_000_000
GBIT_MS = 125_000
"""Bytes in a millisecond of 1 Gbit/s."""


def line(t_ms: float, event: str, host: str = "h1", **fields: Any) -> dict[str, Any]:
    return {"schema": 1, "arm": "migrate", "run": 0, "t_ns": round(t_ms * MS), "host": host, "event": event, **fields}


def start(**nics: list[str]) -> dict[str, Any]:
    told = {host: {nic: {"address": "10.1.0.1"} for nic in names} for host, names in nics.items()}
    return line(0, "run_start", "controller", mode=1, wall_ns=1, nics=told)


def fault(t_ms: float, phase: str, **fields: Any) -> dict[str, Any]:
    return line(t_ms, "fault", id="cable", kind="link_down", nic="eth1", phase=phase, **fields)


def samples(host: str, nic: str, begin_ms: int, end_ms: int, gbit: float, *, before: int = 0) -> list[dict[str, Any]]:
    """Every 10 ms; what is received is half of what is sent."""
    return [
        line(t_ms, "sample", host, nics={nic: {"tx_bytes": sent, "rx_bytes": sent // 2}})
        for t_ms in range(begin_ms, end_ms + 1, 10)
        for sent in [before + round((t_ms - begin_ms) * GBIT_MS * gbit)]
    ]


def fed(lines: Iterable[dict[str, Any]], lasts_s: dict[str, list[float]] | None = None) -> Grid:
    grid = Grid(lasts_s)
    for each in lines:
        grid.feed(each)
    return grid


def shown(grid: Grid, t_ms: float, most_hosts: int = 16) -> list[str]:
    console = Console(record=True, width=110, file=io.StringIO())
    console.print(view(grid, round(t_ms * MS), most_hosts))
    return [row.rstrip() for row in console.export_text().splitlines()]


def test_hosts_by_rails_with_what_each_carries() -> None:
    lines = [start(h0=["eth0", "eth1"], h1=["ens1f0", "ens2f0"])]
    lines += samples("h0", "eth0", 0, 3000, 8.0) + samples("h1", "ens2f0", 0, 3000, 25.0)
    assert shown(fed(lines), 3000) == [
        "host  rail 0  Gbit/s out, in  rail 1  Gbit/s out, in",
        "h0    eth0 up 8.00 4.00       eth1 up 0.00 0.00",
        "h1    ens1f0 up 0.00 0.00     ens2f0 up 25.0 12.5",
    ]


def test_a_nic_that_carries_nothing_any_more_falls_to_zero_without_being_told() -> None:
    """Samples leave out what does not change."""
    grid = fed([start(h0=["eth0"]), *samples("h0", "eth0", 0, 2000, 8.0)])
    rates = [grid.nics["h0", "eth0"].carried.rates_gbit(t_ms * MS)[0] for t_ms in (2000, 2500, 3100, 60000)]
    assert rates[0] == pytest.approx(8.0) and rates[0] > rates[1] > 2.0 and rates[2] < 1.0 and rates[3] < 0.02
    grid.feed(samples("h0", "eth0", 60000, 60300, 8.0, before=2_000_000_000)[-1])
    assert grid.nics["h0", "eth0"].carried.rates_gbit(60400 * MS)[0] < 8.0


def test_a_fault_from_armed_to_undone_with_both_countdowns() -> None:
    lines = [start(h0=["eth1"], h1=["eth1"]), fault(100, "armed", ttl_s=30.0)]
    grid = fed(lines, {"cable": [4.0]})
    assert shown(grid, 100)[-1] == "cable link_down h1:eth1 armed, its host undoes it by itself in 30 s"
    grid.feed(fault(2010, "injected", before_ns=2000 * MS, after_ns=2005 * MS))
    grid.feed(line(2012, "link", nic="eth1", up=False))
    grid.feed(fault(2015, "active"))
    assert shown(grid, 3500)[1:] == [
        "h0    eth1 up 0.00 0.00",
        "h1    eth1 no carrier 0.00 0.00 link_down",
        "cable link_down h1:eth1 active, undone in 2.5 s, its host undoes it by itself in 27 s",
    ]
    assert "undone in 0.0 s" in shown(grid, 9000)[-1], "late, not negative"
    grid.feed(fault(3600, "armed", ttl_s=60.0))
    assert shown(grid, 3600)[-1].endswith("active, undone in 2.4 s, its host undoes it by itself in 60 s"), "set again"
    grid.feed(fault(3600, "armed", ttl_s=26.5))
    grid.feed(fault(6010, "reverted", before_ns=6000 * MS, after_ns=6005 * MS))
    assert shown(grid, 6010)[-1] == "cable link_down h1:eth1 reverted, its host undoes it by itself in 24 s"
    grid.feed(line(6011, "link", nic="eth1", up=True))
    grid.feed(fault(6020, "verified"))
    assert shown(grid, 6020)[1:] == ["h0    eth1 up 0.00 0.00", "h1    eth1 up 0.00 0.00"], "disarmed, and said no more"


def test_a_flap_counts_down_to_the_end_of_each_outage() -> None:
    grid = fed([start(h1=["eth1"])], {"cable": [1.0, 3.0]})
    for cycle, begin_ms, left in ((0, 1000, 0.5), (1, 5000, 2.5)):
        grid.feed(fault(begin_ms, "injected", before_ns=begin_ms * MS, after_ns=begin_ms * MS, cycle=cycle))
        assert grid.undone_in_s("cable", (begin_ms + 500) * MS) == pytest.approx(left)


def test_faults_of_several_nics_and_of_ranks() -> None:
    many = [[f"h{n}", "eth0"] for n in range(6)]
    rail = line(10, "fault", "h0", id="rail", kind="rail_down", nic="eth0", nics=many, phase="active")
    rank = line(20, "fault", "h1", id="late", kind="stop", nic="", rank=1, phase="active")
    rows = shown(fed([start(**{f"h{n}": ["eth0"] for n in range(6)}), rail, rank]), 30)
    assert all(row.endswith("rail_down") for row in rows[1:7])
    assert rows[7] == "rail rail_down h0:eth0 h1:eth0 h2:eth0 h3:eth0 and 2 more active"
    assert rows[8] == "late stop h1 active"


def test_what_the_library_thinks_of_a_nic() -> None:
    grid = fed([start(h1=["eth1"])])
    for told, state in [
        ({"state": "suspect"}, "suspect"),
        ({"state": "degraded", "cause": "rate", "capacity_percent": 50}, "degraded 50 %"),
        ({"state": "down", "peer": "10.1.0.1", "peer_nic": 0}, "degraded 50 %"),
        ({"state": "probation"}, "probation"),
        ({"state": "located", "where": "link"}, "up"),
        ({"state": "down"}, "down"),
        ({"state": "up"}, "up"),
    ]:
        grid.feed(line(1, "nic", nic="eth1", cause="netlink") | told)
        assert grid.nics["h1", "eth1"].state == state


def test_where_there_are_too_many_hosts_the_ill_ones_are_shown() -> None:
    grid = fed([start(**{f"h{n}": ["eth0"] for n in range(64)}), line(1, "link", "h50", nic="eth0", up=False)])
    rows = shown(grid, 2, most_hosts=3)
    assert [row.split()[0] for row in rows[1:]] == ["h0", "h1", "h50", "and"] and rows[-1] == "and 61 more"


def test_the_next_run_begins_anew() -> None:
    grid = fed([start(h1=["eth1"]), fault(1, "active"), line(2, "link", nic="eth1", up=False), start(h1=["eth1"])])
    assert shown(grid, 3) == ["host  rail 0  Gbit/s out, in", "h1    eth1 up 0.00 0.00"]


@pytest.mark.parametrize("path", [ROOT / "docs" / "examples" / "journal.jsonl"], ids=["example"])
def test_a_recorded_journal_can_be_shown_at_every_line(path: Path) -> None:
    grid, seen = Grid({"cable": [4.0]}), set()
    for each in read(path):
        grid.feed(each)
        seen |= {row.split(" active")[0] for row in shown(grid, grid.now_ns / MS) if " active" in row}
    assert seen == {"cable link_down h1:eth1"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def faults_of(name: str) -> tuple[FaultSpec, ...]:
    return load(ROOT / "experiments" / f"{name}.yaml").faults


def test_a_terminal_gets_the_grid_below_the_moving_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    out = Terminal()
    with Live(out, faults_of("nic_down")) as live:
        live.run_started("migrate", 0, 1, 10)
        live.line(start(h1=["eth1"]))
        live.line(fault(1, "active"))
        live.iteration(0, 200.0)
    text = out.getvalue()
    assert "iteration 0 of 0 to 9" in text and "link_down" in text and "rail 0" in text


def test_without_a_terminal_each_change_is_one_line_with_its_time() -> None:
    out = io.StringIO()
    with Plain(out, faults_of("flap")) as plain:
        plain.run_started("stock", 0, 1, 10)
        for each in [
            start(h1=["eth1"]),
            *samples("h1", "eth1", 0, 500, 1.0),
            line(501, "link", nic="eth1", up=True),
            line(502, "link", nic="eth1", up=False),
            line(503, "nic", nic="eth1", state="down", cause="netlink"),
            line(504, "nic", nic="eth1", state="down", cause="netlink", rank=1),
            line(505, "link", nic="eth1", up=True),
        ]:
            plain.line(each)
    words = [row.partition("] ")[2] for row in out.getvalue().splitlines()]
    assert words == ["stock     run 0, 10 iterations", "stock     h1 eth1: no carrier", "stock     h1 eth1: down"]
    assert all(row.startswith("[") and " s] " in row for row in out.getvalue().splitlines())


def test_feeding_is_cheap_enough_to_watch_what_is_measured() -> None:
    """400 lines a second of four hosts' samplers are to cost a few milliseconds: no rendering, no growing lists."""
    grid = fed([start(h0=["eth0"])])
    lines = samples("h0", "eth0", 0, 100_000, 1.0)
    for each in lines:
        grid.feed(each)
    assert len(grid.nics["h0", "eth0"].carried.marks) <= 12 and len(grid.nics) == 1
