"""The flight recorder for real: a cable is pulled under traffic, and the dumps say which, why and for how long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from chaos.analysis.rundata import RunData, Span, read_run
from chaos.analysis.stall import onsets
from chaos.record import journal
from harness.commands.trace import read, trace
from harness.schemas import problems
from harness.trace.gaps import gaps
from r2cc.pytest_plugin import Runner

pytestmark = [pytest.mark.timed, pytest.mark.lab, pytest.mark.timeout(240)]

EXPERIMENT: dict[str, Any] = {
    "name": "traced",
    "topology": {"hosts": 3, "nics": 2, "rate_gbit": 0.2},
    "workload": {"bytes": 2 * 2**20, "iterations": 20, "channels": 2, "warmup": 1, "timeout_s": 60},
    "faults": [
        {"id": "f0", "kind": "link_down", "host": "h1", "nic": "eth1", "at": {"iteration": 5, "fraction": 0.5},
         "duration_s": 1.0},
    ],
    "hypothesis": {"stall_ms_max": 2000.0},
    "arms": {"migrate": {"expect": "any"}},
}  # fmt: skip
TOLERANCE_MS = 25.0
"""The bench learns of a chunk a little after the net."""


def test_dumps_of_a_real_link_failure_name_nic_cause_and_gap(r2cc_run: Runner) -> None:
    run = r2cc_run(EXPERIMENT, trace=True, void_ok=True)
    dumps = run.path / "raw" / "trace-migrate-0"
    assert len([path for path in dumps.iterdir() if path.suffix == ".r2trace"]) == 3  # one of each rank's end
    result = CliRunner().invoke(trace, [str(dumps), "--around", "failover", "--top", "9", "--quiet", "--json"])
    found = json.loads(result.stdout)
    assert problems("trace", found) == []
    assert found["gaps"], "no gap was laid to the failover"
    for gap in found["gaps"]:
        cause = gap["cause"]
        assert cause["nic"] == "eth1"
        assert cause["cause"] in ("netlink", "peer")
    assert any(gap["cause"]["host"] == "h1" for gap in found["gaps"])
    data = read_run(line for line in journal.read(run.path / "journal.jsonl") if line["arm"] == "migrate")
    (window,) = onsets(data.faults[0])
    gap_ms, heard_ms = longest_gap_ms(dumps, window), heard_gap_ms(data, window)
    assert abs(gap_ms - heard_ms) <= TOLERANCE_MS, (gap_ms, heard_ms)
    assert run.arm("migrate").stall_ms <= heard_ms, "which leaves out the usual gap between two chunks"


def heard_gap_ms(data: RunData, window: Span) -> float:
    """The longest that the bench waited for a chunk of any connection, where it overlaps this time."""
    every = (gap for iterations in data.deliveries.values() for found in iterations.values() for gap in found)
    return max(gap.ms for gap in every if gap.overlaps(window))


def longest_gap_ms(dumps: Path, window: Span) -> float:
    """The longest gap of any connection that overlaps this time, with or without a failover of its own."""
    story = read((dumps,))
    ends = [end for end in story.ends() if end.direction == "recv"]
    every = (gap for end in ends for gap in gaps(story, end))
    return max(gap.ms for gap in every if gap.start_ns < window.end_ns and gap.end_ns > window.start_ns)
