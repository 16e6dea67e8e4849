"""Rows of the table for a server of inference: what its users felt. None for other workloads."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.analysis.model import Arm, Run
from reports.words.cells import Cell, Row, counted, void, whole
from reports.words.units import NONE, ms

TIMES = (
    ("Time to first token", "ttft", "from sending a request; median without a fault, and the 99th percentile of all"),
    ("Time per token", "tpot", "of a request, after its first token; median without a fault, and the p99 of all"),
)
GAPS = (
    ("Longest gap", "longest_token_gap", "between two tokens of a stream"),
    ("Longest silence", "longest_silence", "requests were under way, and no token of any of them came"),
)


def rows(arms: Sequence[Arm]) -> list[Row]:
    """By the definitions of vLLM's and SGLang's benchmarks; the worst of all repeats."""
    if not any(run.metric("ttft_all_p50") is not None for arm in arms for run in arm.runs):
        return []
    found = [Row(title, text, [_time(arm, name) for arm in arms]) for title, name, text in TIMES]
    for title, name, text in GAPS:
        found.append(Row(title, text, [_longest(arm, name) for arm in arms]))
    if any(run.metric("failed_requests") is not None for arm in arms for run in arm.runs):
        found.append(Row("Failed requests", "that got no whole answer, of all", [_failed(arm) for arm in arms]))
        found.append(Row("Output", "tokens a second, over all requests", [_throughput(arm) for arm in arms]))
    return found


def _values(runs: Sequence[Run], name: str) -> list[float]:
    return [value for run in runs if (value := run.metric(name)) is not None]


def _time(arm: Arm, name: str) -> Cell:
    healthy, tails = _values(counted(arm), f"{name}_healthy_p50"), _values(counted(arm), f"{name}_all_p99")
    if not tails:
        return Cell(NONE)
    return Cell(ms(max(healthy, default=None)), f"p99 {ms(max(tails))}", void(arm))


def _longest(arm: Arm, name: str) -> Cell:
    gaps = _values(counted(arm), name)
    return Cell(ms(max(gaps)), "", void(arm)) if gaps else Cell(NONE)


def _failed(arm: Arm) -> Cell:
    failed, sent = sum(_values(whole(arm), "failed_requests")), sum(_values(whole(arm), "requests"))
    if not failed and not sent:
        return Cell(NONE)
    return Cell(f"{failed:.0f}", f"of {sent:.0f}", "bad" if failed else "good")


def _throughput(arm: Arm) -> Cell:
    rates = _values(counted(arm), "output_throughput")
    return Cell(f"{min(rates):.1f} tokens/s", "", void(arm)) if rates else Cell(NONE)
