"""What two groups of runs say against each other. Pure: entries of the store in, findings out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from harness.schemas.form import form
from reports.compare import modelled
from reports.compare.groups import Group, Trait
from reports.compare.row import Outcome, Row
from reports.compare.traffic import NicRow, nic_rows
from reports.statistics.gate import ALPHA, MINIMUM_EFFECT
from reports.statistics.holm import adjusted
from reports.statistics.shift import Shift, shift
from reports.store.entry import SAY_NOTHING, Figure

MORE_IS_BETTER = {
    **dict.fromkeys(
        ("busbw", "algbw", "busbw_in_place", "busbw_degraded", "algbw_in_place", "tokens_per_s", "tflops_per_gpu"), True
    ),
    **dict.fromkeys(("healthy_ms", "stall_ms", "iteration_ms", "degraded_ms", "after_ms", "return_ms"), False),
    **dict.fromkeys(("detect_ms", "latency_us", "latency_us_in_place", "ttft_ms", "tpot_ms", "step_ms"), False),
    "rank_memory": False,
}
"""Figures that say which of two is better; the others are about the measurement itself."""
SAME = {"hardware": "fingerprint", "bed": "bed", "experiment": "experiment"}
"""What must be the same for figures to be comparable."""
FEWEST = 4
"""Runs a side with which a difference can be shown at all: with 3 and 3 chance alone gives p = 0.1."""


@dataclass(frozen=True)
class Runs:
    """Ids of both sides."""

    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """Of `after` against `before`. With `not_comparable` nothing is said: figures of different things are no figures.

    `verdict`: *better*, *worse*, *better and worse*, *no difference shown* or *not comparable because ...*."""

    before: str
    after: str
    verdict: str
    grouped_by: tuple[Trait, ...]
    """in what the groups differ; empty: each run for itself"""
    runs: Runs
    differs: tuple[str, ...]
    not_comparable: tuple[str, ...]
    rows: tuple[Row, ...]
    nics: tuple[NicRow, ...]
    """sent bytes (medians of the runs) and their share of what all NICs of the arm sent"""

    @property
    def grouping(self) -> str:
        """What stands for each side, said plainly."""
        what = f"grouped by {' and '.join(self.grouped_by)}" if self.grouped_by else "each run for itself"
        return f"{what}: {_count(self.runs.before)} before, {_count(self.runs.after)} after"


@form("compare", "compare", version=2)
@dataclass(frozen=True)
class Compared:
    """All comparisons that were asked for."""

    comparisons: Sequence[Comparison]


def compare(before: Group, after: Group, *, minimum_effect: float = MINIMUM_EFFECT, alpha: float = ALPHA) -> Comparison:
    """Everything that both measured. Holm's correction is over all of its rows: nothing was named beforehand."""
    because = tuple(_not_comparable(before, after))
    if because:
        rows, nics = list[Row](), tuple[NicRow, ...]()
    elif modelled.are(before, after):
        rows, nics = modelled.rows(before, after, minimum_effect), ()
    else:
        rows, nics = _tested(before, after, minimum_effect, alpha), nic_rows(before.runs, after.runs)
    return Comparison(
        before=before.label,
        after=after.label,
        verdict=_verdict(because, rows),
        grouped_by=after.by,
        runs=Runs(tuple(run.id for run in before.runs), tuple(run.id for run in after.runs)),
        differs=tuple(_differences(before, after)),
        not_comparable=because,
        rows=tuple(rows),
        nics=nics,
    )


def _verdict(because: Sequence[str], rows: Sequence[Row]) -> str:
    if because:
        return f"not comparable because {'; '.join(because)}"
    shown = {row.outcome for row in rows} & {"better", "worse"}
    both = [row.outcome for row in rows if row.outcome != "only one has it"]
    if not shown and rows and all(outcome == "too few runs" for outcome in both):
        return f"no difference shown: fewer than {FEWEST} runs a side can show none"
    return " and ".join(sorted(shown)) or "no difference shown"


def _tested(before: Group, after: Group, minimum_effect: float, alpha: float) -> list[Row]:
    rows, shifts = _rows(_values(before), _values(after))
    sure = adjusted([found.p for found in shifts.values()])
    for index, p in zip(shifts, sure, strict=True):
        rows[index] = _judged(rows[index], shifts[index], p, minimum_effect, alpha)
    return rows


def _count(runs: Sequence[str]) -> str:
    return f"{len(runs)} run{'' if len(runs) == 1 else 's'}"


def _not_comparable(before: Group, after: Group) -> Iterable[str]:
    same = {what: field for what, field in SAME.items() if what != "hardware" or not modelled.are(before, after)}
    for what, field in same.items():
        ours, theirs = ({str(getattr(run, field)) for run in group.runs} for group in (before, after))
        if ours != theirs or len(ours) > 1:
            yield f"{what} differs ({_names(ours)} against {_names(theirs)})"
    bad = [[run for run in group.runs if run.verdict in ("void", *SAY_NOTHING)] for group in (before, after)]
    for run in {runs[0].id: runs[0] for runs in bad if runs}.values():  # two arms of one run are two groups of it
        why = f" ({run.reason})" if run.reason else ""
        yield f"{run.id} says nothing: it is {run.verdict}{why}"


def _differences(before: Group, after: Group) -> Iterable[str]:
    simulated = modelled.are(before, after)
    for what, field in (*SAME.items(), ("build", "build_id"), ("arms", "arms"), ("seed", "seed")):
        ours, theirs = ({_word(getattr(run, field)) for run in group.runs} for group in (before, after))
        if ours != theirs:
            yield f"{'settings' if simulated and what == 'hardware' else what}: {_names(ours)} -> {_names(theirs)}"


def _word(value: object) -> str:
    return " ".join(value) if isinstance(value, tuple) else str(value)


def _names(values: Iterable[str]) -> str:
    return ", ".join(sorted(value or "unknown" for value in values))


Key = tuple[str, str, str, int | None]


def _values(group: Group) -> Mapping[Key, list[Figure]]:
    found: dict[Key, list[Figure]] = {}
    for figure in (figure for run in group.runs for figure in run.figures):
        if figure.name in MORE_IS_BETTER and figure.repeat >= 0:
            found.setdefault((figure.arm, figure.name, figure.unit, figure.size_bytes), []).append(figure)
    return found


def _rows(before: Mapping[Key, list[Figure]], after: Mapping[Key, list[Figure]]) -> tuple[list[Row], dict[int, Shift]]:
    """A row for each figure; by their places, the shifts of those that can be tested."""
    rows: list[Row] = []
    shifts: dict[int, Shift] = {}
    for index, key in enumerate(dict.fromkeys([*before, *after])):
        found = before.get(key, []), after.get(key, [])
        ours, theirs = ([figure.value for figure in figures] for figures in found)
        rows.append(_row(key, *found))
        if rows[-1].outcome == "no difference shown":
            shifts[index] = shift(ours, theirs)
    return rows, shifts


def _row(key: Key, before: Sequence[Figure], after: Sequence[Figure]) -> Row:
    ours, theirs = ([figure.value for figure in figures] for figures in (before, after))
    counts = (len(ours), len(theirs))
    bounds = [figure.bound for figure in (*after, *before) if figure.bound is not None]
    outcome: Outcome = "no difference shown"
    if 0 in counts:
        outcome = "only one has it"
    elif min(counts) < FEWEST or min(*ours, *theirs) <= 0:
        outcome = "too few runs"
    old, new, bound = (median(values) if values else None for values in (ours, theirs, bounds))
    return Row(*key, old, new, bound, counts, outcome)


def _judged(row: Row, found: Shift, p: float, minimum_effect: float, alpha: float) -> Row:
    ratio, outcome = found.ratio, row.outcome
    if p < alpha and not 1 / (1 + minimum_effect) < ratio < 1 + minimum_effect:
        outcome = "better" if (ratio > 1) is MORE_IS_BETTER[row.name] else "worse"
    return replace(row, outcome=outcome, ratio=ratio, interval=(found.low, found.high), p_adjusted=p)
