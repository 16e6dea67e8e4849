"""Cost parameters from literal times."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from plan_fit import Pair, costs_of, fitted, words

RING = Pair(measured=(1600.0, 11_600.0), predicted=(900.0, 9_900.0))


def test_what_more_bytes_take_gives_the_efficiency() -> None:
    assert RING.efficiency == 0.9
    assert Pair((10, 20), (11, 22)).efficiency == 1.0


def test_the_parameters_are_words_for_the_planner_and_back() -> None:
    cost = fitted({"healthy": RING, "chain_fixed": Pair((0, 1000), (0, 975))}, tiny_ring_us=600, hosts=4)
    assert cost == {"hop_us": 100.0, "ring_efficiency": 0.9, "chain_efficiency": 0.975}
    assert words(cost) == "hop_us=100,ring_efficiency=0.9,chain_efficiency=0.975"
    assert costs_of((words(cost),)) == cost
    with pytest.raises(ValueError):
        costs_of(("hop_us",))
