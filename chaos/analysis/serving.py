"""What users of an inference server feel: time to the first token, and between tokens. Pure.

An iteration of the workload `decode` is one request; its line has `ttft_ms` and `gaps_ms`, the times between tokens.
"""

from __future__ import annotations

from collections.abc import Iterable

from chaos.analysis.phases import degraded_indices, healthy_indices
from chaos.analysis.rundata import RunData
from chaos.analysis.stats import median, percentile

Named = dict[tuple[str, str], float | None]
"""(name, unit) -> value."""


def figures(data: RunData) -> Named:
    """Figures of all requests, and of those before the first fault and during any; none for other workloads."""
    requests = {
        line["index"]: line for line in data.by_event.get("iteration", []) if "ttft_ms" in line and line["index"] >= 0
    }
    if not requests:
        return {}
    degraded = {index for fault in data.faults for index in degraded_indices(data, fault)}
    every = [gap for line in requests.values() for gap in line["gaps_ms"]]
    found: Named = {("longest_token_gap", "ms"): max(every, default=None)}
    for word, indices in (("healthy", set(healthy_indices(data))), ("degraded", degraded), ("all", set(requests))):
        chosen = [line for index, line in requests.items() if index in indices]
        found |= _of([line["ttft_ms"] for line in chosen], "ttft", word)
        found |= _of((gap for line in chosen for gap in line["gaps_ms"]), "tpot", word)
    return found


def _of(values: Iterable[float], name: str, word: str) -> Named:
    taken = list(values)
    return {(f"{name}_{word}_p50", "ms"): median(taken), (f"{name}_{word}_p99", "ms"): percentile(taken, 99)}
