"""Traces as files: read back equal; of a damaged one every bad line is named at once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.simulate.faults import trace as traces
from chaos.simulate.faults.trace import Fault, Trace
from harness import schemas
from harness.errors import InputErrors
from harness.files.writing import write_whole
from tests.unit import sim_faults

GOOD = Trace(
    7,
    30.0,
    "small",
    (Fault(1.5, 2, "cut", "port", (0, 1, 0)), Fault(2.0, 3, "degraded", "nic", (1, 1), 0.5)),
    3,
    (("flap", 9),),
)


@settings(max_examples=50, deadline=None)
@given(trace=sim_faults.traces(sim_faults.DUAL), seed=st.integers(0, 2**60), days=st.floats(1e-9, 1e6))
def test_what_is_written_is_read_back_equal(trace: Trace, seed: int, days: float) -> None:
    trace = replace(trace, seed=seed, days=days, streams=(("flap", seed),))
    lines = list(traces.lines(trace))
    assert traces.parse("\n".join(lines), "x") == trace
    assert not [problem for line in lines for problem in schemas.problems("sim_trace", json.loads(line))]


def test_a_file_is_written_and_read(tmp_path: Path) -> None:
    write_whole(tmp_path / "a trace.jsonl", traces.text(GOOD))
    assert traces.parse((tmp_path / "a trace.jsonl").read_text(), "x") == GOOD


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("t_s", -1, "t_s: input should be greater than or equal to 0, not -1"),
        ("t_s", float("nan"), "t_s: input should be a finite number"),
        ("t_s", True, "t_s: input should be a valid number, not True"),
        ("duration_s", 0, "duration_s: input should be greater than 0, not 0"),
        ("kind", "broken", "kind: input should be 'cut', 'flap' or 'degraded', not 'broken'"),
        ("what", "rack", "what: input should be 'nic', 'port'"),
        ("where", [0, 1], "where: [host, nic, port] for a port"),
        ("where", [0, -1, 0], "where: 1: input should be greater than or equal to 0, not -1"),
        ("factor", 1.0, "factor: input should be less than 1, not 1.0"),
        ("silent", 1, "silent: input should be a valid boolean, not 1"),
        ("color", "red", "color: unknown key"),
    ],
)
def test_a_bad_value_is_named_with_its_line(key: str, value: object, told: str) -> None:
    lines = list(traces.lines(GOOD))
    lines[1] = json.dumps({**json.loads(lines[1]), key: value})
    with pytest.raises(InputErrors) as caught:
        traces.parse("\n".join(lines), "f")
    assert [error for error in caught.value.errors if error.startswith(f"f:2: {told}")]
    assert len(caught.value.errors) == 1
    assert "NaN" in lines[1] or schemas.problems("sim_trace", json.loads(lines[1]))


def test_every_bad_line_is_named_at_once() -> None:
    lines = list(traces.lines(GOOD))
    lines[0] = lines[0].replace('"seed": 7', '"seed": "x"')
    lines[1] = lines[1][:-4]
    lines.append(lines[2].replace('"t_s": 2.0', '"t_s": 0.5'))
    lines.append("[]")
    with pytest.raises(InputErrors) as caught:
        traces.parse("\n".join(lines), "f")
    assert [error.split(": ")[0] for error in caught.value.errors] == ["f:1", "f:2", "f:5", "f:4"]


def test_a_file_that_was_cut_short_is_noticed() -> None:
    lines = list(traces.lines(GOOD))
    with pytest.raises(InputErrors, match="says 2 faults, but 1 follow"):
        traces.parse("\n".join(lines[:-1]), "f")
    with pytest.raises(InputErrors, match="the file is empty"):
        traces.parse("", "f")
