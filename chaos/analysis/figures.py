"""From one run's journal lines to the figures of summary.json. Pure.

See docs/reference/contracts.md says what each means.
"""

from __future__ import annotations

import re
from typing import Any

from chaos.analysis import busbw, moves, requests, void
from chaos.analysis.bounds import beyond_ms, degraded_bound_ms, iteration_bound_ms
from chaos.analysis.model import HOLDS, FaultFigures, Healthy, Metric, Run
from chaos.analysis.phases import (
    after_indices,
    beside,
    degraded_indices,
    healthy_ms,
    hit_index,
    pick,
    struck_index,
    struck_indices,
    undisturbed_indices,
    usual_beside_ms,
)
from chaos.analysis.rundata import FaultTimes, RunData
from chaos.analysis.stall import detect_ms, longest_gap_ms, onsets, stall_ms
from chaos.analysis.stats import median, percentile, spread
from chaos.record.lines import Counters
from harness.workloads.reading.steps import FOREIGN

OF_LIBRARY = ("path", "nic", "side", "net_end")
"""Lines of the net library."""
HEALTHY_RATE = 0.98
"""A run is back when it reaches this share of its healthy rate (design page 10)."""
FAILED = re.compile(r"R2CC: connection\b.* failed: ")  # said by connection.cc
Json = dict[str, Any]


def run_figures(data: RunData, mode: int, *, iterations: int) -> Run:
    """The figures of one run, which nothing has judged yet: it has no checks."""
    finished = data.whole
    all_of = sum(len(data.iterations[index]) == data.ranks for index in finished)
    ends = data.by_event.get("bench_end", [])
    healthy = healthy_ms(data)
    return Run(
        run=0,
        completed=all_of == _asked(ends, iterations) and len(ends) == data.ranks > 0 and ended_well(data),
        iterations=len(finished),
        wrong_elements=wrong_elements(data),
        healthy_ms=Healthy(_round(median(healthy)), _round(percentile(healthy, 99))),
        bytes_per_nic=bytes_per_nic(data),
        faults=[fault_figures(data, fault, mode) for fault in data.faults],
        metrics=metrics(data, mode),
        void=void.reasons(data),
        errors=errors(data),
        checks=[],
        verdict=HOLDS,
        checked=None if elements_checked(data) else False,
        heard=None if mode == 0 or heard(data) else False,
    )


def _asked(ends: list[Json], iterations: int) -> int:
    """How many iterations there should be: time may have ended the run before all were done."""
    return min([int(end["completed"]) for end in ends] + [iterations])


def ended_well(data: RunData) -> bool:
    """A rank that did all its work and then hangs or dies at its end has not completed. A program that is not ours says
    how it went by its exit code alone."""
    ends = data.by_event.get("run_end", [])
    ours = data.start is None or data.start["op"] not in FOREIGN
    return (ours or bool(ends)) and not late_deaths(data)


def late_deaths(data: RunData) -> list[str]:
    """Ranks with another exit code than 0, in a whole run in which all said that they were done. Our own ranks end with
    1 for wrong elements, which are judged as such."""
    ends = data.by_event.get("run_end", [])
    if data.start is None or not ends or len(data.by_event.get("bench_end", [])) < data.ranks:
        return []
    if ends[-1]["outcome"] != "finished":
        return []
    fine = {0, 1} if data.start["op"] not in FOREIGN and wrong_elements(data) else {0}
    bad = {rank: code for rank, code in ends[-1]["exit_codes"].items() if code not in fine}
    return [f"{rank} ended with exit code {code}, after all ranks had done their work" for rank, code in bad.items()]


def elements_checked(data: RunData) -> bool:
    """Our own ranks compare every element; of other programs only those that say so."""
    if data.start is None or data.start["op"] not in FOREIGN:
        return True
    return any(end.get("checked") for end in data.by_event.get("bench_end", []))


def heard(data: RunData) -> bool:
    """Whether R2CC's library said anything, where nothing else shows that it was loaded."""
    ours = data.start is None or data.start["op"] not in FOREIGN
    return ours or any(data.by_event.get(event) for event in OF_LIBRARY)


def errors(data: RunData) -> list[str]:
    """What every rank ended with, and what the net library said about a connection that failed."""
    said = [line for line in data.by_event.get("log", []) if FAILED.match(line["message"])]
    said = [*data.by_event.get("error", []), *said, *requests.failures(data)]
    return [*dict.fromkeys(f"{line['host']}: {line['message']}" for line in said), *late_deaths(data)]


def wrong_elements(data: RunData) -> int:
    """Over all ranks and iterations, warm-up included: a wrong result is wrong whenever it happens."""
    return sum(line["wrong_elements"] for line in data.by_event.get("iteration", []))


def fault_figures(data: RunData, fault: FaultTimes, mode: int) -> FaultFigures:
    """The figures of one fault; None for what could not be measured."""
    index = struck_index(data, fault)
    hit = index is not None and not fault.missed
    durations = data.durations_ms
    figures = {
        "detect_ms": detect_ms(data, fault),
        "stall_ms": stall_ms(data, fault) if hit else None,
        "iteration_ms": iteration_ms(data, fault, index),
        "iteration_bound_ms": iteration_bound_ms(data, fault, mode),
        "beyond_ms": beyond_ms(data, fault, mode),
        "longest_ms": longest_ms(data, fault),
        "degraded_ms": median(pick(durations, degraded_indices(data, fault))),
        "degraded_bound_ms": degraded_bound_ms(data, fault, mode),
        "after_ms": median(pick(durations, after_indices(data, fault))),
        "return_ms": return_ms(data, fault),
        "stolen": void.stolen(data, onsets(fault)),
    }
    return FaultFigures(
        id=fault.id,
        kind=fault.kind,
        host=fault.host,
        nic=fault.nic,
        at_iteration=index,
        hit=hit,
        onset_ns=fault.onset_ns,
        reverted_ns=fault.reverted_ns,
        **{name: _round(value) for name, value in figures.items()},
    )


def iteration_ms(data: RunData, fault: FaultTimes, index: int | None) -> float | None:
    """The iteration that was hit, and what stalled beside it where the fault struck there."""
    took_ms = data.durations_ms.get(index) if index is not None else None
    if took_ms is None or index is None or hit_index(data, fault) is not None:
        return took_ms
    stalls = beside(data)
    more = (line["beside_ms"] - usual_beside_ms(data, stalls) for line in stalls if line["index"] == index)
    return took_ms + max(0.0, next(more, 0.0))


def longest_ms(data: RunData, fault: FaultTimes) -> float | None:
    """The longest iteration while the fault lasted and things settled.

    What operations beside it took longer than usual that the program does not time counts, too: a fault that struck one
    of these must not pass for harmless. It may lie anywhere in its row, and so before the first struck iteration or
    behind the last one. As much as they took where no fault was is none of the fault's doing: a program makes its data
    and checks it there.
    """
    durations = data.durations_ms
    struck = struck_indices(data, fault) or [index for index in (struck_index(data, fault),) if index in durations]
    stalls = [line for line in data.by_event.get("iteration", []) if line.get("beside_ms", 0) > 0]
    reached = {line["index"]: line["beside_ms"] for line in stalls if struck and _row_reaches(line, struck)}
    undisturbed = set(undisturbed_indices(data)) - set(reached)
    noise = max((line["beside_ms"] for line in stalls if line["index"] in undisturbed), default=0.0)
    over = {index: took_ms - noise for index, took_ms in reached.items() if took_ms > noise}
    found = [(durations[index] if index in struck else 0.0) + over.get(index, 0.0) for index in {*struck, *over}]
    return max(found, default=None)


def _row_reaches(line: Json, struck: list[int]) -> bool:
    """Whether the row of this iteration has a struck one, or ends or begins next to one."""
    first, last = line.get("row", [line["index"], line["index"]])
    return bool(first <= max(struck) + 1 and last >= min(struck) - 1)


def return_ms(data: RunData, fault: FaultTimes) -> float | None:
    """From the undo to the start of the first whole iteration at 98 % of the healthy rate; None when none came.

    An iteration no slower than the slowest percentile of the healthy ones counts too, so that noise alone is no delay.
    """
    healthy = healthy_ms(data)
    middle, slowest = median(healthy), percentile(healthy, 99)
    if middle is None or slowest is None or fault.reverted_ns is None:
        return None
    limit, whole, durations = max(middle / HEALTHY_RATE, slowest), data.whole, data.durations_ms
    back = [whole[index].start_ns for index in after_indices(data, fault) if durations[index] <= limit]
    return (min(back) - fault.reverted_ns) / 1e6 if back else None


def bytes_per_nic(data: RunData) -> dict[str, dict[str, Counters]]:
    """Bytes that each NIC moved from the first to the last sample of it."""
    first: dict[tuple[str, str], Json] = {}
    last: dict[tuple[str, str], Json] = {}
    for line in data.by_event.get("sample", []):
        for nic, counters in line["nics"].items():
            first.setdefault((line["host"], nic), counters)
            last[line["host"], nic] = counters
    found: dict[str, dict[str, Counters]] = {}
    for (host, nic), end in sorted(last.items()):
        began = first[host, nic]
        moved = Counters(tx_bytes=end["tx_bytes"] - began["tx_bytes"], rx_bytes=end["rx_bytes"] - began["rx_bytes"])
        found.setdefault(host, {})[nic] = moved
    return found


def metrics(data: RunData, mode: int) -> list[Metric]:
    """Figures of a run that no single fault owns."""
    size = int(data.start["bytes"]) if data.start else None
    gaps = [gap for fault in data.faults if (gap := longest_gap_ms(data, fault)) is not None]
    values: dict[tuple[str, str], tuple[float | None, float | None]] = {
        ("busbw", "GBps"): (busbw_GBps(data), None),
        ("rank_memory", "bytes"): (
            max((e["max_rss_bytes"] for e in data.by_event.get("bench_end", [])), default=None),
            None,
        ),
        ("cpu_busy", "ratio"): (void.cpu_busy(data), void.CPU_BUSY_MAX),
        ("healthy_spread", "ratio"): (
            spread(healthy_ms(data)),
            None if requests.served(data) else void.HEALTHY_SPREAD_MAX,
        ),
        ("undisturbed_worst", "ratio"): (undisturbed_worst(data), None),
        ("longest_gap", "ms"): (max(gaps, default=None), None),
        ("failovers", "connections"): (moves.failovers(data), None),
        ("shared_out", "times"): (moves.shared_out(data), None),
        ("not_returned", "connections"): (moves.not_returned(data), None),
        ("error_after", "ms"): (moves.error_after_ms(data), None),
        ("longest_iteration", "ms"): (max(data.durations_ms.values(), default=None), None),
    }
    served = requests.figures(data) if requests.served(data) else requests.figures_of_decode(data)
    values |= {key: (value, None) for key, value in served.items()}
    own = busbw.figures(data, mode)
    if own:
        del values["busbw", "GBps"]
    by_size = [metric(name, "GBps", each, value, bound) for name, each, value, bound in own]
    return by_size + [metric(name, unit, size, value, bound) for (name, unit), (value, bound) in values.items()]


def undisturbed_worst(data: RunData) -> float | None:
    """The slowest iteration that no fault may have touched, over the healthy median."""
    middle = median(healthy_ms(data))
    slowest = max(pick(data.durations_ms, undisturbed_indices(data)), default=None)
    return slowest / middle if middle and slowest is not None else None


def busbw_GBps(data: RunData) -> float | None:
    """Healthy bus bandwidth, as nccl-tests defines it; None for operations it does not define it for."""
    middle = median(healthy_ms(data))
    if not middle or data.start is None or data.start["op"] != "allreduce":
        return None
    total = float(data.start["bytes"]) * int(data.start.get("in_a_row", 1))
    return total / (middle * 1e6) * 2 * (data.ranks - 1) / data.ranks


def metric(name: str, unit: str, size_bytes: int | None, value: float | None, bound: float | None) -> Metric:
    """One entry of `metrics[]`."""
    return Metric(name, unit, size_bytes, _round(value), bound)


def _round(value: float | None) -> float | None:
    """Microseconds are the clock's resolution worth printing."""
    return value if value is None or isinstance(value, int) else round(value, 4)
