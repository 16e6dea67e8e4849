"""Which kinds of network failure a job survives with each arm: from the arms' rules and the faults of generated traces.

Nothing is typed in: how often a kind comes is up to the generators' published rates, what comes of it to the rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.simulate.cluster.arms import ARMS, arm
from chaos.simulate.jobs.rates import OUTCOMES, blows, by_kind
from chaos.simulate.training.layout import Placement
from chaos.simulate.training.prepared import Prepared, prepare
from chaos.simulate.training.statekey import StateKeys

MONTH_DAYS = 30.0


@dataclass(frozen=True, slots=True)
class Row:
    """`share`: of all onsets. `arms`: of this kind's, the share that came to each outcome."""

    kind: str
    rate_per_month: float
    share: float
    arms: Mapping[str, Mapping[str, float]]


def table(prepared: Iterable[Prepared], params: Any, arms: Sequence[str] = tuple(ARMS)) -> list[Row]:
    """The most frequent kind first."""
    counts: dict[str, dict[str, dict[str, int]]] = {name: {} for name in arms}
    wall_s = 0.0
    for trace in prepared:
        wall_s += trace.wall_s
        for name in arms:
            _add(counts[name], by_kind(trace, blows(arm(name), trace, params, 0.0).outcomes))
    if not wall_s or not arms:
        return []
    totals = {kind: sum(found.values()) for kind, found in counts[arms[0]].items()}
    months = wall_s / (MONTH_DAYS * 86400)
    rows = [
        Row(kind, total / months, total / sum(totals.values()), {name: _shares(counts[name][kind]) for name in arms})
        for kind, total in totals.items()
    ]
    return sorted(rows, key=lambda row: -row.rate_per_month)


def survived_share(rows: Sequence[Row], name: str, *, without: Sequence[str] = ()) -> float:
    """Of all onsets, those after which the job goes on; `without` some kinds, as flaps outnumber all else."""
    counted = [row for row in rows if row.kind not in without]
    total = sum(row.rate_per_month for row in counted)
    gone = sum(row.rate_per_month * row.arms[name]["restart"] for row in counted)
    return 1 - gone / total if total else 1.0


def prepared(intervals: Sequence[Any], nics: int) -> Prepared:
    """Of a trace that no job runs under."""
    alone = Placement(stage_hosts=1, slots=1, nodes=1, ranks=1, groups=1, replicas_a_host=1)
    return prepare(intervals, StateKeys(alone, nics))


def _add(counts: dict[str, dict[str, int]], found: Mapping[str, Mapping[str, int]]) -> None:
    for kind, outcomes in found.items():
        known = counts.setdefault(kind, dict.fromkeys(OUTCOMES, 0))
        for outcome, count in outcomes.items():
            known[outcome] += count


def _shares(found: Mapping[str, int]) -> dict[str, float]:
    total = sum(found.values())
    return {outcome: count / total for outcome, count in found.items()}
