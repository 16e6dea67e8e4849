"""Small simulations for tests: files, and a simulation.json that no simulator was needed for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

TOPOLOGY = {
    "name": "small", "hosts": 4, "gpus": 4, "nics": 4, "rate_gbit": 100, "nvlink_GBps": 300,
    "fabric": {"kind": "rail", "oversubscription": 1.0, "spine": True},
}  # fmt: skip
SMALL: dict[str, Any] = {
    "schema": 1,
    "name": "small",
    "title": "An AllReduce with failed NICs",
    "topology": TOPOLOGY,
    "workload": {"kind": "collective", "op": "allreduce", "bytes": 1 << 26},
    "faults": {"failed_nics": 1, "traces": 6, "days": 1, "block": 2},
    "arms": ["stock", "balance", "allreduce"],
    "axes": {"faults.failed_nics": [0, 1, 2]},
    "expect": [{"arm": "allreduce", "figure": "ratio", "max": 1.6}],
}


def write(folder: Path, name: str = "small.yaml", **changes: Any) -> Path:
    """SMALL with top-level keys changed (None: left out)."""
    value = {key: each for key, each in {**SMALL, **changes}.items() if each is not None}
    path = folder / name
    path.write_text(yaml.safe_dump(value, sort_keys=False), encoding="utf-8")
    return path


def figure(name: str, unit: str, value: float | None, *, spread: float = 0.0, n: int = 6) -> dict[str, Any]:
    low, high = (None, None) if value is None else (value * (1 - spread), value * (1 + spread))
    middle = {"p50": value, "p99": high, "error": None if value is None else spread / 2}
    return {"name": name, "unit": unit, "value": value, "low": low, "high": high, **middle, "n": n, "basis": "modelled"}


def simulation(**changes: Any) -> dict[str, Any]:
    """A job's simulation.json with two places, seven arms and something in every part."""
    arms = ["stock", "upstream", "exclusion", "migrate", "balance", "allreduce", "optcc"]
    points = [
        {"at": {"topology.hosts": hosts}, "gpus": hosts * 8, "arm": arm, "figures": _job_figures(hosts, number)}
        for hosts in (16, 128)
        for number, arm in enumerate(arms)
    ]
    outcome = {"outcome": "survived", "survived": 0.97, "degraded": 0.03, "restart": 0.0}
    restart = {"outcome": "restart", "survived": 0.1, "degraded": 0.0, "restart": 0.9}
    reference = {
        "at": {}, "arm": "allreduce", "name": "overhead", "unit": "share", "value": 0.01, "relation": "at_most",
        "ours": 0.006, "difference": -0.4, "source": "arXiv 2512.25059, abstract", "note": "",
    }  # fmt: skip
    ratio = figure("cost_ratio", "x", 12.2)
    covered = {"stock": restart, "allreduce": outcome}
    value = {
        "schema": 1, "name": "thirty_days", "title": "A job of thirty days", "seed": 7, "code": "0123456789abcdef",
        "basis": "modelled", "verdict": "holds", "exit_code": 0, "topology": TOPOLOGY,
        "workload": {"kind": "job", "model": "gpt-7b"}, "faults": {"rates": "published", "days": 30.0, "traces": 6},
        "arms": arms, "axes": {"topology.hosts": [16, 128]}, "draw": ["effective_training_time", "gpu_hours_saved"],
        "params": [{"name": "stall_ms", "value": 9, "unit": "ms", "basis": "measured", "source": "docs/results"}],
        "points": [*points, {**points[-1], "arm": "exclusion/allreduce", "figures": [ratio]}],
        "distributions": [], "references": [reference],
        "checks": [{"name": "allreduce overhead", "value": 0.006, "bound": "<= 0.01", "outcome": "holds"}],
        "coverage": [{"kind": "nic_tor", "rate_per_month": 8.2, "share": 1.0, "arms": covered}],
        "streams": {"experiment": 7, "trace 0": 123},
    }  # fmt: skip
    return {**value, **changes}


def _job_figures(hosts: int, number: int) -> list[dict[str, Any]]:
    kept = 1 - hosts / 2000 / (number + 1)
    return [
        figure("effective_training_time", "share", kept, spread=0.004),
        figure("goodput", "share", kept - 0.001, spread=0.004),
        figure("gpu_hours_saved", "GPU h", None if number == 0 else hosts * 30.0 * number, spread=0.2),
        figure("restarts", "", 3.0 / (number + 1)),
    ]


def serving(**changes: Any) -> dict[str, Any]:
    """A service's, with distributions."""
    arms = ["stock", "kv_replication", "allreduce"]
    shares = [0.01, 0.25, 0.5, 0.9, 0.99, 1.0]
    shapes = [
        {"at": {}, "arm": arm, "name": name, "unit": "ms", "quantiles": [[s, (number + 1) * (1 + s)] for s in shares]}
        for name in ("ttft", "tpot")
        for number, arm in enumerate(arms)
    ]  # fmt: skip
    points = [
        {"at": {}, "gpus": 8, "arm": arm, "figures": [figure("ttft_p99_ms", "ms", 90000.0 / 10**number, spread=0.1)]}
        for number, arm in enumerate(arms)
    ]
    parts = {
        "name": "serving",
        "title": "",
        "workload": {"kind": "serving"},
        "arms": arms,
        "axes": {},
        "points": points,
    }
    return simulation(
        **parts, distributions=shapes, draw=["ttft_p99_ms"], coverage=[], references=[], checks=[], **changes
    )


def run_dir(folder: Path, value: dict[str, Any]) -> Path:
    """A run directory of it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "simulation.json").write_text(json.dumps(value))
    (folder / "experiment.yaml").write_text(yaml.safe_dump({**SMALL, "name": value["name"]}))
    return folder
