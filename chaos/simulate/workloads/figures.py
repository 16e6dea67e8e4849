"""The figures a simulation gives: name, unit, what it is in words, and which of two is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class About:
    """`share`: a part of one, shown as per cent; `x`: times something."""

    unit: str
    words: str
    better: Literal["less", "more", "neither"] = "less"


COLLECTIVE = {
    "time_us": About("us", "time of one collective"),
    "healthy_us": About("us", "the same with every NIC whole", "neither"),
    "bound_us": About("us", "what no schedule can beat with the NICs that are left", "neither"),
    "ratio": About("x", "time over that of the healthy ring"),
    "over_bound": About("x", "time over the lower bound"),
    "busbw_GBps": About("GB/s", "bus bandwidth, as nccl-tests counts it", "more"),
    "stall_us": About("us", "time in which nothing moves after the fault"),
    "replay_bytes": About("B", "bytes that are sent again"),
    "completed": About("share", "collectives that complete", "more"),
}
TRAINING = {
    "iteration_s": About("s", "time of one iteration"),
    "healthy_s": About("s", "the same with every NIC whole", "neither"),
    "overhead": About("share", "time lost to the faults, of a healthy iteration"),
    "exposed_comm_s": About("s", "communication that nothing overlaps"),
    "tokens_per_s": About("tokens/s", "tokens trained on a second, by all GPUs", "more"),
}
JOB = {
    "goodput": About("share", "work done, of what a job without faults would do", "more"),
    "effective_training_time": About("share", "time spent on work that is kept", "more"),
    "overhead": About("share", "time lost, of the time spent on work that is kept"),
    "restarts": About("", "restarts from a checkpoint"),
    "stalls_s": About("s", "time in which nothing moves, before the job goes on"),
    "lost_s": About("s", "time lost to restarts: waiting, loading, doing work again"),
    "gpu_hours_lost": About("GPU h", "GPU hours lost to network faults"),
    "gpu_hours_saved": About("GPU h", "GPU hours saved over stock NCCL", "more"),
    "cost_saved_usd": About("USD", "their cost", "more"),
}
SERVING = {
    "ttft_p50_ms": About("ms", "time to the first token, median"),
    "ttft_p90_ms": About("ms", "time to the first token, 90th percentile"),
    "ttft_p99_ms": About("ms", "time to the first token, 99th percentile"),
    "tpot_p50_ms": About("ms", "time per output token, median"),
    "tpot_p90_ms": About("ms", "time per output token, 90th percentile"),
    "tpot_p99_ms": About("ms", "time per output token, 99th percentile"),
    "gap_p99_ms": About("ms", "longest gap between two tokens of a request, 99th percentile"),
    "gap_max_ms": About("ms", "longest gap between two tokens of any request"),
    "completed": About("share", "requests that complete", "more"),
    "slo": About("share", "requests within both limits", "more"),
    "overhead": About("share", "mean time of a request over that without faults, less one"),
    "ttft_overhead": About("share", "mean time to the first token over that without faults, less one"),
    "tpot_overhead": About("share", "mean time per output token over that without faults, less one"),
    "outage_s": About("s", "longest time without a token after a fault"),
    "recovery_s": About("s", "from the first fault until requests take no more than 10 % longer than without faults"),
    "tokens_per_s": About("tokens/s", "output tokens a second", "more"),
}
ALL = {**COLLECTIVE, **TRAINING, **SERVING, **JOB}


def about(name: str, kind: str | None = None) -> About:
    """Of a figure by name; a ratio that a file defines is `x`."""
    tables = {"collective": COLLECTIVE, "training": TRAINING, "job": JOB, "serving": SERVING}
    return tables.get(kind or "", ALL).get(name) or ALL.get(name) or About("x", name.replace("_", " "), "neither")
