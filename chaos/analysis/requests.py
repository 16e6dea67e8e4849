"""What users of a server felt: time to the first token, and between tokens. Pure.

Of `kind: inference` by the definitions of vLLM's and SGLang's own benchmarks, as follows. An iteration of the workload
`decode` is one request, too; its line has `ttft_ms` and `gaps_ms`, the times between tokens.

`calculate_metrics` in vLLM's `vllm/benchmarks/serve.py` and in SGLang's `sglang/bench_serving.py`: TTFT, from sending a
request to its first token; TPOT of a request, (latency - TTFT) / (tokens - 1); ITL, each time between two tokens of a
stream; E2EL, until its last token; throughputs over the time from the first request to the last answer. Percentiles are
numpy's. Only requests that were answered count, but for `failed_requests`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from chaos.analysis.phases import degraded_indices, healthy_indices
from chaos.analysis.rundata import RunData
from chaos.analysis.stats import median, percentile
from harness.workloads.reading.steps import REQUESTS

Named = dict[tuple[str, str], float | None]
"""(name, unit) -> value."""
Line = Mapping[str, Any]
MOST_SHOWN = 5


def served(data: RunData) -> bool:
    """Whether iterations are requests to a server."""
    return data.start is not None and data.start["op"] == REQUESTS


def failures(data: RunData) -> list[dict[str, Any]]:
    """Why requests failed: the first few that say different things, with how many there were."""
    failed = [line for line in data.by_event.get("request_failed", []) if line["index"] >= 0]
    by_why: dict[str, list[dict[str, Any]]] = {}
    for line in failed:
        by_why.setdefault(line["message"], []).append(line)
    return [
        {**lines[0], "message": f"request {lines[0]['index']} failed{_more(lines)}: {why}"}
        for why, lines in list(by_why.items())[:MOST_SHOWN]
    ]


def _more(lines: list[dict[str, Any]]) -> str:
    return f", and {len(lines) - 1} more" if len(lines) > 1 else ""


def figures(data: RunData) -> Named:
    """Of all requests, of those answered before the first fault, and of those wholly inside one."""
    answered = {line["index"]: line for line in data.by_event.get("iteration", []) if line["index"] >= 0}
    sent = {line["index"] for line in data.by_event.get("progress", []) if line["index"] >= 0}
    degraded = {index for fault in data.faults for index in degraded_indices(data, fault)}
    found: Named = {
        ("requests", "requests"): float(len(sent)),
        ("failed_requests", "requests"): float(len(sent - set(answered))),
        ("longest_token_gap", "ms"): max((gap for line in answered.values() for gap in line["gaps_ms"]), default=None),
        ("longest_silence", "ms"): silence_ms(list(answered.values())),
        **_throughput(data, answered.values()),
    }
    for word, indices in (("healthy", set(healthy_indices(data))), ("degraded", degraded), ("all", set(answered))):
        chosen = [line for index, line in answered.items() if index in indices]
        found |= _of([line["ttft_ms"] for line in chosen], "ttft", word)
        found |= _of([tpot for line in chosen if (tpot := tpot_ms(line)) is not None], "tpot", word)
        found |= _of([gap for line in chosen for gap in line["gaps_ms"]], "itl", word)
        found |= _of([latency_ms(line) for line in chosen], "e2el", word)
    return found


def figures_of_decode(data: RunData) -> Named:
    """The same of our own ranks' requests; none of other workloads. TPOT is each time between two tokens."""
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
        found |= _of([gap for line in chosen for gap in line["gaps_ms"]], "tpot", word)
    return found


def latency_ms(line: Line) -> float:
    return float(line["end_ns"] - line["start_ns"]) / 1e6


def tpot_ms(line: Line) -> float | None:
    """None of an answer of one token."""
    tokens = int(line["tokens"])
    return (latency_ms(line) - float(line["ttft_ms"])) / (tokens - 1) if tokens > 1 else None


def token_ns(line: Line) -> list[int]:
    """When each token of an answer came."""
    first = int(line["start_ns"]) + round(line["ttft_ms"] * 1e6)
    return [first + round(ms * 1e6) for ms in accumulate(line["gaps_ms"], initial=0.0)]


def silence_ms(answered: Sequence[Line]) -> float | None:
    """The longest time for which requests were under way and no token of any of them came: a server's stall, whether
    it struck while prompts were read or between tokens."""
    longest, last, until = None, 0, -1
    points = [(line["start_ns"], line["end_ns"], False) for line in answered]
    points += [(t_ns, 0, True) for line in answered for t_ns in token_ns(line)]
    for t_ns, end_ns, token in sorted(points):
        if token:
            longest = max(longest or 0.0, (t_ns - last) / 1e6)
            last = t_ns
        elif t_ns > until:
            last = t_ns  # nothing was under way
        until = max(until, end_ns)
    return longest


def _throughput(data: RunData, answered: Iterable[Line]) -> Named:
    lines = list(answered)
    began = [line["start_ns"] for line in data.by_event.get("progress", []) if line["index"] >= 0]
    ended = [line["end_ns"] for line in lines]
    seconds = (max(ended) - min(began)) / 1e9 if ended and began else 0.0
    counts = {
        ("request_throughput", "requests_per_s"): len(lines),
        ("output_throughput", "tokens_per_s"): sum(line["tokens"] for line in lines),
        ("total_throughput", "tokens_per_s"): sum(line["tokens"] + line["prompt_tokens"] for line in lines),
    }
    return {name: count / seconds if seconds > 0 else None for name, count in counts.items()}


def _of(values: list[float], name: str, word: str) -> Named:
    return {(f"{name}_{word}_p50", "ms"): median(values), (f"{name}_{word}_p99", "ms"): percentile(values, 99)}
