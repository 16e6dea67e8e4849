"""benchmarks/nccl_schedules.py without GPUs: what it measured is written and judged, whatever it is asked for."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import nccl_schedules
from nccl_cost import Place

from harness.facts.local_gpus import Gpus

MS = 1e3


@contextmanager
def no_jobs(*_: Any) -> Iterator[tuple[None, dict[str, Any]]]:
    yield None, {}


def measured(_arms: Any, wanted: Any, _tell: str, found: list[Any]) -> None:
    us = {"healthy": [100 * MS] * 6, "chosen": [199 * MS] * 6, "ours": [134 * MS] * 6}
    found.extend({"op": wanted.op, "bytes": size, "ops": 1, "us": us} for size in wanted.sizes)


@pytest.mark.parametrize(
    ("op", "nics", "down", "expected"),
    [
        ("all_reduce", 2, "h0:eth0", (4 / 3, 2)),
        ("all_reduce", 4, "h1:eth0,h2:eth3", (8 / 7, 2)),
        ("all_gather", 4, "h1:eth0,h2:eth3", (4 / 3, 2)),
        ("reduce_scatter", 4, "h1:eth0,h3:eth3", (4 / 3, 4 / 3)),
    ],
)
def test_bounds_of_degraded_hosts(op: str, nics: int, down: str, expected: tuple[float, float]) -> None:
    found = nccl_schedules.bounds(nics, 1, op, nccl_schedules.lost_of(down, nics))
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    "words",
    [
        ["--down", "h4:eth0"],
        ["--down", "h0:eth0,h0:eth1"],
        ["--op", "all_gather", "--cut"],
        ["--jobs", "healthy,own_tree,light_slots"],
        ["--jobs", "healthy,light_slots", "--down", "h0:eth0,h3:eth1"],
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_starts(words: list[str]) -> None:
    result = CliRunner().invoke(nccl_schedules.main, words)
    assert result.exit_code == 2
    assert "--down" in result.output or "--cut" in result.output


@pytest.mark.parametrize(("down", "own"), [("h0:eth0", 4 / 3), ("h1:eth0", 8 / 3)])
def test_a_host_that_has_a_light_slot_as_it_is_costs_the_tree_nothing(down: str, own: float) -> None:
    entry = {"bytes": 1 << 26, "us": {"healthy": [MS] * 6, "own_tree": [MS] * 6, "light_slots": [MS] * 6}}
    found = {
        figure.name.split()[0]: figure.bound for figure in nccl_schedules.figures(2, 1, "all_reduce", down, [entry])
    }
    assert found == pytest.approx({"own_tree": own, "light_slots": 4 / 3})


def test_what_was_measured_is_written_beside_what_the_machine_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = {"build_id": "0123", **asdict(Gpus("2.11", "13.0", "2.28.9", ["H100"] * 4)), "cpus": 64}
    monkeypatch.setattr(nccl_schedules, "on_gpus", lambda *_, **__: (Place("python3", 4, Path("/none")), about))
    monkeypatch.setattr(nccl_schedules, "jobs", no_jobs)
    monkeypatch.setattr(nccl_schedules, "measure", measured)
    monkeypatch.setattr(nccl_schedules, "received", lambda *_: {"ours": 1.0})
    out = tmp_path / "found.json"
    words = ["--jobs", "healthy,chosen,ours", "--sizes", "67108864", "--out", str(out), "--json"]
    result = CliRunner().invoke(nccl_schedules.main, words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["figures"], "what it says meanwhile is no JSON"
    report = json.loads(out.read_text())
    assert report["gpus"] == ["H100"] * 4
    assert (report["nics"], report["ranks_per_host"]) == (2, 1)
    assert [entry["bytes"] for entry in report["entries"]] == [67108864]
    assert [figure["measured"] for figure in report["figures"]] == pytest.approx([1.99, 1.34, 134 / 199])
