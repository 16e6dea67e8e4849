"""benchmarks/stall_distribution.py without a lab: what is judged, and when the machine alone is too slow for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from stall_distribution import BOUNDS_MS, Found, _figures


@pytest.mark.parametrize(
    ("floor_ms", "stall_ms", "outcome"), [(4.0, 9.0, "holds"), (9.9, 10.1, "MISSES"), (10.1, 30.0, "void")]
)
def test_a_p99_is_void_where_the_machine_alone_stands_still_for_longer_than_the_bound(
    floor_ms: float, stall_ms: float, outcome: str
) -> None:
    assert BOUNDS_MS["link_down"] == 10.0
    shown = {f.name: f for f in _figures("link_down", Found(stalls=[stall_ms] * 24, floor=[floor_ms] * 99))}
    assert shown["link_down: stall, p99"].as_json()["outcome"] == outcome
    assert shown["link_down: floor, p99"].measured == floor_ms


def test_without_a_floor_the_p99_is_judged() -> None:
    shown = {f.name: f.as_json()["outcome"] for f in _figures("black_hole", Found(stalls=[51.0] * 24))}
    assert shown["black_hole: stall, p99"] == "MISSES"
