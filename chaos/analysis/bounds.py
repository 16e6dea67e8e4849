"""What an iteration can take at best while NICs are gone, from the healthy rate measured in the same run.

A NIC's healthy rate is the bytes it carried in a healthy iteration over that iteration's time. Who carries what comes
from `bench_start` (at the start) and from the net library's `path` lines (after a migration), never from a constant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from chaos.analysis import rails
from chaos.analysis.paths import carriers, crowding
from chaos.analysis.phases import degraded_indices, healthy_indices, healthy_ms, hit_index
from chaos.analysis.rundata import Connection, FaultTimes, Key, Nic, RunData, Span
from chaos.analysis.stats import median
from chaos.faults.registry import takes_bandwidth

Load = dict[tuple[Nic, str], float]
"""(NIC, tx or rx) -> chunks."""
MIGRATE, BALANCE = 1, 2


def loads(connections: list[Connection], chunks: Mapping[Key, float]) -> Load:
    """Chunks that each NIC sends and receives when its connections carry `chunks`."""
    load: Load = defaultdict(float)
    for connection in connections:
        load[connection.receiver, "rx"] += chunks.get(connection.key, 0)
        load[connection.sender, "tx"] += chunks.get(connection.key, 0)
    return dict(load)


def healthy_chunks(data: RunData) -> dict[Key, float]:
    """Chunks that each connection delivers in a healthy iteration (median)."""
    indices = healthy_indices(data)
    return {
        key: median([len(per_iteration.get(index, [])) for index in indices]) or 0.0
        for key, per_iteration in data.deliveries.items()
    }


def remaining_chunks(data: RunData, index: int, at_ns: int, healthy_iteration_ms: float) -> dict[Key, float]:
    """Chunks that each connection had still to deliver in iteration `index`; one under way counts in part."""
    found: dict[Key, float] = {}
    for key, per_iteration in data.deliveries.items():
        gaps = per_iteration.get(index, [])
        usual_ms = healthy_iteration_ms / len(gaps) if gaps else 1.0
        under_way = [gap for gap in gaps if gap.start_ns <= at_ns < gap.end_ns]
        done = sum(min(1.0, (at_ns - gap.start_ns) / 1e6 / usual_ms) for gap in under_way)
        found[key] = sum(gap.end_ns > at_ns for gap in gaps) - done
    return found


def time_ms(load: Load, healthy_load: Load, healthy_iteration_ms: float) -> float | None:
    """How long the busiest NIC takes for `load` at its healthy rate; one that was idle counts as the best."""
    fastest = max(healthy_load.values(), default=0.0)
    if fastest <= 0:
        return None
    return healthy_iteration_ms * max((load[nic] / (healthy_load.get(nic) or fastest) for nic in load), default=0.0)


def iteration_bound_ms(data: RunData, fault: FaultTimes, mode: int) -> float | None:
    """Time before the fault, plus what was left over what the mode can carry; None where no bound is known (stock).

    The fault counts from when its command had returned, which makes the bound smaller than counting from its start.
    """
    index, struck_ns, healthy = hit_index(data, fault), fault.struck_ns, median(healthy_ms(data))
    whole = data.whole.get(index) if index is not None else None
    if index is None or struck_ns is None or whole is None or healthy is None:
        return None
    end_ns = min(whole.end_ns, fault.reverted_ns or whole.end_ns)
    carrying = _Carrying(data, fault, mode, healthy)
    before = (struck_ns - whole.start_ns) / 1e6
    end = Span(end_ns, end_ns)
    if data.deliveries:
        rest = carrying.time_ms(remaining_chunks(data, index, struck_ns, healthy), end)
    else:
        rest = carrying.stretched_ms(max(0.0, healthy - before), end)
    return None if rest is None else before + rest


def beyond_ms(data: RunData, fault: FaultTimes, mode: int) -> float | None:
    """What the iteration that was hit took beyond its bound; where a mode has none, beyond what `balance` could."""
    index = hit_index(data, fault)
    took = data.durations_ms.get(index) if index is not None else None
    bound = iteration_bound_ms(data, fault, mode if mode in (MIGRATE, BALANCE) else BALANCE)
    return None if took is None or bound is None else took - bound


def degraded_bound_ms(data: RunData, fault: FaultTimes, mode: int) -> float | None:
    """What a whole iteration can take at best while the fault lasts; None where no bound is known or none was whole.

    Other faults may last as well for some of the iterations: the median, as `degraded_ms` is.
    """
    healthy, whole = median(healthy_ms(data)), data.whole
    if healthy is None:
        return None
    carrying = _Carrying(data, fault, mode, healthy)
    alike: dict[frozenset[str], list[int]] = defaultdict(list)
    for index in degraded_indices(data, fault):
        alike[frozenset(other.id for other in carrying.lasting(whole[index]))].append(index)
    bounds = [(carrying.whole_ms(whole[indices[-1]]), len(indices)) for indices in alike.values()]
    return median([bound for bound, count in bounds if bound is not None for _ in range(count)])


@dataclass(frozen=True)
class _Carrying:
    """How fast a mode can carry bytes while a fault lasts."""

    data: RunData
    fault: FaultTimes
    mode: int
    healthy: float

    def whole_ms(self, when: Span) -> float | None:
        """A whole iteration like the one of that time."""
        if self.data.deliveries:
            return self.time_ms(healthy_chunks(self.data), when)
        return self.stretched_ms(self.healthy, when)

    def time_ms(self, chunks: Mapping[Key, float], when: Span) -> float | None:
        """`migrate` puts a lost NIC's share where the paths say; `balance` on all rails that both ends have left."""
        data = self.data
        usual = loads(data.connections, healthy_chunks(data))
        if self.mode == MIGRATE:
            return time_ms(loads(carriers(data, when.end_ns), chunks), usual, self.healthy)
        as_started = time_ms(loads(data.connections, chunks), usual, self.healthy)
        return self._balanced(as_started, when, rails.flows(data.connections, chunks))

    def stretched_ms(self, usual_ms: float, when: Span) -> float | None:
        """The same where deliveries are not told (NCCL's own): what takes `usual_ms` when all NICs carry alike."""
        if self.mode == MIGRATE:
            busiest = crowding(self.data, when.end_ns)
            return None if busiest is None else usual_ms * busiest
        return self._balanced(usual_ms, when, rails.flows_of_paths(self.data))

    def _balanced(self, usual_ms: float | None, when: Span, sent: rails.Flows) -> float | None:
        if self.mode != BALANCE or usual_ms is None:
            return None
        factor = rails.stretch(rails.fabric(self.data), self._lost(when), sent)
        return None if factor is None else usual_ms * factor

    def lasting(self, when: Span) -> list[FaultTimes]:
        """The fault, and others that began before that time and were not undone in it."""
        return [
            other
            for other in self.data.faults
            if other is self.fault
            or (
                other.onset_ns is not None
                and other.onset_ns < when.start_ns
                and (other.reverted_ns is None or other.reverted_ns >= when.end_ns)
            )
        ]

    def _lost(self, when: Span) -> dict[Nic, float]:
        """What is gone of each NIC; only what is known counts."""
        lost: dict[Nic, float] = {}
        for fault in self.lasting(when):
            if takes_bandwidth(fault.kind):
                lost |= {nic: max(fault.lost, lost.get(nic, 0.0)) for nic in fault.nics}
        return lost
