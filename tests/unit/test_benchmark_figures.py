"""What benchmarks make of what they saw, for the scoreboard."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import click
import few_chunks
import gathers_in_a_row
import many_hosts
import net_cases
import one_nic_reset
from click.testing import CliRunner
from common import median_of, show
from plan_runs import Run
from project_times import command_s
from project_times import main as project_times

from chaos.analysis.rundata import Span, read_run
from harness.errors import BuildError, InfraError
from harness.hosts import LocalHost


def test_cases_have_their_problems_and_longest_times_as_figures() -> None:
    seen = {"told_ms": [3.0, 14.4], "lane_and_count_ms": [[3.6, 0.25]], "iteration_ms": None, "messages": 341}
    rows = [net_cases.Row("killed", "", "", mode, "", ["late"] * mode, seen, 1.0) for mode in (0, 1)]
    found = {each.name: each for each in net_cases.figures(rows)}
    assert found["killed, mode 1: told_ms"].measured == 14.4
    assert (found["killed, mode 1: not right"].measured, found["killed, mode 1: not right"].outcome) == (1, "MISSES")
    assert found["killed, mode 0: not right"].outcome == "shown", "stock is not judged"
    assert len(found) == 4


def test_a_median_has_its_interval_and_how_often_it_was_measured() -> None:
    few = median_of("time", [3.0, 1.0, 2.0], 10.0, "ms")
    assert (few.measured, few.low, few.high, few.repeats) == (2.0, 1.0, 3.0, 3), "the extremes of few"
    many = median_of("time", [float(n) for n in range(20)], 10.0, "ms", void=True)
    assert (many.measured, many.low, many.high, many.repeats, many.outcome) == (9.5, 5.0, 14.0, 20, "void")
    one, none = median_of("time", [7.0], 10.0, "ms"), median_of("time", [], 10.0, "ms")
    assert (one.measured, one.low, one.high, one.repeats) == (7.0, None, None, 1)
    assert (none.measured, none.repeats, none.outcome) == (None, 0, "MISSES")
    assert "2 ms      1..3 of 3  <= 10" in show("Title", [few])


@pytest.mark.parametrize("name", ["encryption", "many_hosts", "net_cases"])
def test_those_that_use_what_tests_use_run_without_pytest(name: str) -> None:
    program = Path(many_hosts.__file__).with_name(f"{name}.py")
    done = subprocess.run([sys.executable, program, "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("Usage: "), done.stderr


def test_what_a_host_receives_is_of_all_its_nics() -> None:
    sent = {"h1": {"eth0": {"tx": 1, "rx": 10}, "eth1": {"tx": 2, "rx": 20}}, "h2": {"eth0": {"tx": 3, "rx": 40}}}
    assert Run([1.0], 0, 0.0, sent, {}, 0.0).received("h1") == 30


def test_the_time_of_what_fails_is_no_figure() -> None:
    assert command_s("true") < 20
    with pytest.raises(BuildError, match=r"ended with 3: last words"):
        command_s("sh", "-c", "echo last words; exit 3")
    assert CliRunner().invoke(project_times, ["--parts", "build,none"]).exit_code == 2
    with pytest.raises(InfraError, match="r2cc deploy ended with 2"):
        many_hosts.took_s(LocalHost(), "deploy", "--inventory", "/nowhere.yaml")


def _path(at_ms: float, state: str, direction: str = "send") -> dict[str, object]:
    place = {"host": "h0", "peer": "10.1.0.2", "connection": 2, "nic": "eth0"}
    return {"event": "path", "t_ns": round(at_ms * 1e6), "state": state, "direction": direction, **place}


def test_a_reset_counts_from_the_senders_error_to_what_it_sends_again() -> None:
    lines = [_path(1, "frozen", "recv"), _path(1, "active"), _path(10, "frozen"), _path(12, "exchanging")]
    lines += [_path(14, "frozen"), _path(15.5, "active"), _path(30, "active"), _path(40, "frozen")]
    data = read_run(lines)
    assert one_nic_reset.again(data) == [(10_000_000, 5.5)], "an end that stays frozen is none"
    struck = [Span(9_000_000, 9_500_000)]
    assert one_nic_reset.stood(data, struck) == [], "nothing was delivered, so there is no stall, which is not 0"


@pytest.mark.parametrize(
    ("main", "words", "why"),
    [
        (few_chunks.main, ["--nics", "x"], "takes numbers from 2 to 16 with commas between, not 'x'"),
        (few_chunks.main, ["--slots", "1,33"], "takes numbers from 1 to 32 with commas between, not '1,33'"),
        (few_chunks.main, ["--lost", "0"], "takes numbers from 1 to 15 with commas between, not '0'"),
        (few_chunks.main, ["--nics", "3,2", "--lost", "2"], "leaves none of 2 NICs"),
        (gathers_in_a_row.main, ["--lost", "4"], "takes numbers from 1 to 2 with commas between, not '4'"),
        (gathers_in_a_row.main, ["--channels", "4,"], "takes numbers from 1 to 64 with commas between, not '4,'"),
    ],
)
def test_several_numbers_are_checked_before_anything_is_made(main: click.Command, words: list[str], why: str) -> None:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert why in done.output
