"""Summaries for tests that say only what matters to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.analysis.model import Arm, Summary, summary_of

Json = Mapping[str, Any]
TIMES = dict.fromkeys(
    ("at_iteration", "detect_ms", "stall_ms", "iteration_ms", "iteration_bound_ms", "degraded_ms", "degraded_bound_ms",
     "after_ms", "return_ms")
)  # fmt: skip
FAULT = {"id": "f0", "kind": "link_down", "host": "h0", "nic": "eth1", "hit": True, **TIMES}
RUN: Json = {
    **{"completed": True, "iterations": 9, "wrong_elements": 0, "healthy_ms": {"median": None, "p99": None}},
    **{"bytes_per_nic": {}, "faults": [], "metrics": [], "void": [], "errors": [], "checks": [], "verdict": "holds"},
}
ARM: Json = {"mode": 1, "expect": "holds", "verdict": "holds", "as_expected": True, "metrics": [], "checks": []}
WHOLE: Json = {
    **{"verdict": "holds", "exit_code": 0, "experiment": "x", "bed": "lab", "build_id": None, "seed": 1},
    **{"hardware": {"fingerprint": "f", "cpu": "c", "cores": 1, "memory_bytes": 1}, "reasons": []},
}


def summary(arms: Sequence[Json], **more: Any) -> Summary:
    return summary_of({**WHOLE, **more, "arms": [_arm(each) for each in arms]})


def arms(*each: Json) -> list[Arm]:
    return summary(each).arms


def _arm(arm: Json) -> Json:
    return {"name": "migrate", **ARM, **arm, "runs": [_run(run) for run in arm["runs"]]}


def _run(run: Json) -> Json:
    checks = [{"value": None, "bound": None, "unit": "", **check} for check in run.get("checks", [])]
    faults = [{**FAULT, **fault} for fault in run.get("faults", [])]
    return {**RUN, **run, "faults": faults, "checks": checks}
