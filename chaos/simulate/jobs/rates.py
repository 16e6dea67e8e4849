"""What an arm makes of states and of faults, as tables to index with arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.simulate.cluster.arms import NOTICEABLE_S, Arm, Left, rule
from chaos.simulate.training.iteration import Training
from chaos.simulate.training.prepared import CASES, CODES, Floats, Ints, Prepared

OUTCOMES = ("survived", "degraded", "restart")


@dataclass(frozen=True, slots=True)
class Blows:
    """What each event of a trace does to an arm."""

    stalls_s: Floats
    backs_s: Floats
    fatal: Any
    outcomes: Ints


class Rates:
    """Progress a second in each numbered state, 0 where nothing runs, 1 that of stock NCCL with all whole.

    Filled as numbers appear."""

    def __init__(self, training: Training, name: str) -> None:
        self._training, self._name = training, name
        self._healthy_s = training.iteration("stock").total_s
        self._table: Floats = np.zeros(0)

    def of(self, numbers: Ints) -> Floats:
        keys = self._training.keys.all
        if len(self._table) < len(keys):
            new = [self._healthy_s / self._training.by_key(self._name, key).total_s for key in keys[len(self._table) :]]
            self._table = np.concatenate((self._table, np.array(new)))
        found: Floats = self._table[numbers]
        return found


def blows(of: Arm, prepared: Prepared, params: Any, iteration_s: float) -> Blows:
    rules = [rule(of, left, params, iteration_s, silent=silent) for left, silent in CASES]
    code, lasts_s = prepared.event_code, prepared.event_duration_s
    wait_s, extra_s, fatal_s, back_s = (
        np.array([getattr(each, name) for each in rules])[code]
        for name in ("wait_s", "extra_s", "fatal_after_s", "back_s")
    )
    acts = lasts_s > wait_s
    stalls_s = np.minimum(lasts_s, wait_s) + np.where(acts, extra_s, 0.0)
    fatal = lasts_s > fatal_s
    gone = np.isin(code, [CODES[Left.NIC, silent] for silent in (False, True)])
    gives_up = acts & gone & of.excludes
    outcomes = np.where(fatal, 2, np.where(gives_up | (stalls_s > NOTICEABLE_S), 1, 0))
    return Blows(stalls_s, np.where(acts, back_s, 0.0), fatal, outcomes)


def by_kind(prepared: Prepared, outcomes: Ints) -> dict[str, dict[str, int]]:
    """Onsets of each process by outcome."""
    width = len(OUTCOMES)
    counts = np.bincount(prepared.event_process * width + outcomes, minlength=width * len(prepared.processes))
    rows = counts.reshape(-1, width)
    return {
        process: {outcome: int(count) for outcome, count in zip(OUTCOMES, row, strict=True)}
        for process, row in zip(prepared.processes, rows, strict=True)
    }
