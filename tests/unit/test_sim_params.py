"""Parameters: each with its source; what is overridden is assumed; unknown names are told with those like them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from chaos.simulate import params as parameters
from chaos.simulate.params import Basis
from harness.errors import InputErrors

ROOT = Path(__file__).parents[2]


def test_every_parameter_says_what_it_is_and_where_from() -> None:
    found = parameters.load()
    assert len(found) > 30
    for name, param in found.items():
        assert param.value >= 0, name
        assert param.unit and param.source and param.basis in get_args(Basis), name
    assert found.detect_ms == found["detect_ms"]


def test_files_of_this_repository_that_are_named_are_there() -> None:
    named = {
        word.rstrip(":,.")
        for param in parameters.load().values()
        for word in param.source.replace("(", " ").split()
        if word.startswith("docs/")
    }
    assert named
    assert not [name for name in named if not (ROOT / name.rstrip(")")).exists()]


def test_stalls_are_what_the_lab_measured() -> None:
    found = parameters.load()
    for kind, file, name in (
        ("link_down", "balance-1gbit-link-down-4", "stall"),
        ("black_hole", "balance-1gbit-black-hole-3", "stall_silent"),
    ):
        figures = json.loads((ROOT / f"docs/results/raw/{file}.json").read_text())["figures"]
        measured = {figure["name"]: figure["measured"] for figure in figures}
        assert found[f"{name}_ms"].value == pytest.approx(measured[f"{kind}: stall, median"], abs=0.06)
        assert found[f"{name}_p99_ms"].value == pytest.approx(measured[f"{kind}: stall, p99"], abs=0.06)
    assert found.detect_ms.value + found.handshake_ms.value < found.stall_ms.value


def test_overrides_are_assumed_unless_they_say_otherwise() -> None:
    found = parameters.load({"stall_ms": 3, "hold_s": {"value": 5, "basis": "measured", "source": "our site"}})
    assert (found.stall_ms.value, found.stall_ms.basis, found.stall_ms.unit) == (3.0, "assumed", "ms")
    assert "6.2" in found.stall_ms.source
    assert (found.hold_s.basis, found.hold_s.source) == ("measured", "our site")
    assert parameters.load().stall_ms.value == 6.2


def test_every_bad_override_is_told_with_names_like_it() -> None:
    changes = {
        "stal_ms": 3,
        "hold_s": -1,
        "return_ms": {"value": 1, "basis": "guess"},
        "detect_ms": {"value": 1, "colour": "red"},
    }
    with pytest.raises(InputErrors) as caught:
        parameters.load(changes)
    assert [error.split(": ")[1] for error in caught.value.errors] == list(changes)
    assert "stall_ms" in caught.value.errors[0]
    assert [name for name, _ in parameters.problems({"stal_ms": 3, "hold_s": "x", "stall_ms": 1})] == [
        "stal_ms",
        "hold_s",
    ]
    with pytest.raises(AttributeError, match="near it: stall_ms"):
        _ = parameters.load().stall_mss
