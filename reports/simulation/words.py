"""What figures, axes and values of a simulation are called on a page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from chaos.simulate.workloads.figures import About, about
from reports.words.units import NONE

ARMS = {
    "stock": "Stock NCCL, restart",
    "upstream": "NCCL’s own failover",
    "exclusion": "Exclusion (AdapCC-like)",
    "kv_replication": "KV replication (DejaVu-like)",
    "migrate": "R2CC, migration",
    "balance": "R2CC, balance",
    "allreduce": "R2CC AllReduce",
    "optcc": "OptCC",
    "published": "R2CC-AllReduce as published",
}
SHORT = {"exclusion": "AdapCC-like", "kv_replication": "DejaVu-like", "upstream": "NCCL failover"}
AXES = {
    "topology.hosts": "hosts",
    "topology.nics": "NICs of a host",
    "faults.failed_nics": "failed NICs",
    "workload.bytes": "bytes",
    "workload.model": "model",
    "params.pipeline_chunks": "pipeline chunks K",
}
FIGURE_TITLES = {
    "ratio": "Time over that of the healthy ring",
    "busbw_GBps": "Bus bandwidth",
    "overhead": "Overhead",
    "goodput": "Goodput",
    "effective_training_time": "Effective training time",
    "gpu_hours_saved": "GPU hours saved over stock NCCL",
    "gpu_hours_lost": "GPU hours lost to network faults",
    "cost_saved_usd": "Cost saved over stock NCCL",
    "ttft_p99_ms": "Time to the first token, 99th percentile",
    "ttft_p50_ms": "Time to the first token, median",
    "tpot_p99_ms": "Time per output token, 99th percentile",
    "tpot_p50_ms": "Time per output token, median",
    "restarts": "Restarts",
    "iteration_s": "Time of an iteration",
    "outage_s": "Time without a token after a fault",
}


def arm(name: str) -> str:
    """An arm's name, or of a ratio of two."""
    first, slash, second = name.partition("/")
    return f"{ARMS.get(first, first)} over {ARMS.get(second, second)}" if slash else ARMS.get(name, name)


def inside(name: str) -> str:
    """An arm's name inside a sentence."""
    return "stock NCCL" if name == "stock" else ARMS.get(name, name)


def short(name: str) -> str:
    """For the end of a line in a chart."""
    return SHORT.get(name, name)


def arm_class(name: str) -> str:
    return "base" if name in ("stock", "upstream", "exclusion", "kv_replication") else "ours"


def axis(name: str) -> str:
    """`topology.hosts` is `hosts`; what is not known is shown by its last part."""
    return AXES.get(name) or name.rpartition(".")[2].replace("_", " ")


def figure(name: str, kind: str) -> tuple[str, About]:
    """(title, what is known of it)."""
    known = about(name, kind)
    return FIGURE_TITLES.get(name) or name.replace("_", " ").capitalize(), known


def at(place: Mapping[str, Any]) -> str:
    """`8 hosts, 2 failed NICs`."""
    return ", ".join(_one(name, value) for name, value in place.items()) or "as given"


def _one(name: str, value: Any) -> str:
    word = axis(name)
    if isinstance(value, int | float) and word in ("hosts", "failed NICs", "bytes"):
        return f"{value:,} {word}" if value != 1 else f"1 {word.removesuffix('s')}"
    return f"{word} {value}"


def value(number: float | None, unit: str) -> str:
    """A figure for people, with its unit."""
    if number is None:
        return NONE
    scaled = {"us": (number / 1e6, _time), "ms": (number / 1e3, _time), "s": (number, _time)}
    if unit in scaled:
        amount, show = scaled[unit]
        return show(amount)
    if unit == "share":
        return percent(number)
    if unit == "x":
        return f"{number:.3f} ×" if abs(number) < 10 else f"{number:.1f} ×"
    if unit == "B":
        return _si(number, "B")
    return f"{plain(number)} {unit}".strip()


def percent(number: float) -> str:
    """With as many digits as tell it from nought and from all."""
    shown = number * 100
    away = min(abs(shown), abs(100 - shown)) if 0 <= shown <= 100 else abs(shown)
    digits = 1 if away >= 1 or away == 0 else 2 if away >= 0.1 else 3
    return f"{shown:.{digits}f} %"


def plain(number: float) -> str:
    """Three or four digits, thousands apart."""
    if number == 0:
        return "0"
    size = abs(number)
    return f"{number:,.0f}" if size >= 100 else f"{number:.3g}"


def _time(seconds: float) -> str:
    size = abs(seconds)
    for least, factor, unit in ((172_800, 86_400, "d"), (7_200, 3_600, "h"), (180, 60, "min"), (1, 1, "s")):
        if size >= least:
            return f"{seconds / factor:.3g} {unit}"
    if size >= 1e-3:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} µs" if size else "0 s"


def _si(number: float, unit: str) -> str:
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= factor:
            return f"{number / factor:.3g} {prefix}{unit}"
    return f"{number:.3g} {unit}"


SELF_TOLD = ("us", "ms", "s", "share", "x", "B")
"""Units that values are shown with anyway; others stand in the title of an axis."""


def tick(number: float, unit: str) -> str:
    """A value on an axis: short."""
    shown = value(number, unit) if unit in SELF_TOLD else plain(number)
    return re.sub(r"(\.\d*?)0+(?=\D|$)", lambda found: found[1].rstrip("."), shown)
