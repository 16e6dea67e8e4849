"""What two groups of runs say against each other. Pure: entries of the store in, findings out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports.compare import modelled
from reports.compare.groups import Group
from reports.compare.row import Row
from reports.compare.traffic import NicRow, nic_rows
from reports.statistics.gate import ALPHA, MINIMUM_EFFECT
from reports.statistics.holm import adjusted
from reports.statistics.shift import shift
from reports.store.entry import SAY_NOTHING, Figure

Json = dict[str, Any]

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
class Comparison:
    """Of `after` against `before`. With `not_because` nothing is said: figures of different things are no figures."""

    before: str
    after: str
    differs: tuple[str, ...]
    not_because: tuple[str, ...]
    rows: tuple[Row, ...]
    nics: tuple[NicRow, ...] = ()
    by: tuple[str, ...] = ()
    runs: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Ids of both sides."""

    @property
    def grouping(self) -> str:
        """What stands for each side, said plainly."""
        what = f"grouped by {' and '.join(self.by)}" if self.by else "each run for itself"
        return f"{what}: {_count(self.runs[0])} before, {_count(self.runs[1])} after"

    @property
    def verdict(self) -> str:
        """*better*, *worse*, *better and worse*, *no difference shown* or *not comparable because ...*."""
        if self.not_because:
            return f"not comparable because {'; '.join(self.not_because)}"
        shown = {row.outcome for row in self.rows} & {"better", "worse"}
        if (
            not shown
            and self.rows
            and all(row.outcome == "too few runs" for row in self.rows if row.outcome != "only one has it")
        ):
            return f"no difference shown: fewer than {FEWEST} runs a side can show none"
        return " and ".join(sorted(shown)) or "no difference shown"

    def as_json(self) -> Json:
        return {
            "before": self.before,
            "after": self.after,
            "verdict": self.verdict,
            "grouped_by": list(self.by),
            "runs": {"before": list(self.runs[0]), "after": list(self.runs[1])},
            "differs": list(self.differs),
            "not_comparable": list(self.not_because),
            "rows": [_row_json(row) for row in self.rows],
            "nics": [row.as_json() for row in self.nics],
        }


def compare(before: Group, after: Group, *, minimum_effect: float = MINIMUM_EFFECT, alpha: float = ALPHA) -> Comparison:
    """Everything that both measured. Holm's correction is over all of its rows: nothing was named beforehand."""
    because = tuple(_not_comparable(before, after))
    if because:
        rows, nics = list[Row](), tuple[NicRow, ...]()
    elif modelled.are(before, after):
        rows, nics = modelled.rows(before, after, minimum_effect), ()
    else:
        rows, nics = _tested(before, after, minimum_effect, alpha), nic_rows(before.runs, after.runs)
    ids = (tuple(run.id for run in before.runs), tuple(run.id for run in after.runs))
    differs = tuple(_differences(before, after))
    return Comparison(before.label, after.label, differs, because, tuple(rows), nics, after.by, ids)


def _tested(before: Group, after: Group, minimum_effect: float, alpha: float) -> list[Row]:
    rows = _rows(_values(before), _values(after))
    tested = [index for index, row in enumerate(rows) if row.shift is not None]
    sure = adjusted([rows[index].shift.p for index in tested])  # type: ignore[union-attr]
    for index, p in zip(tested, sure, strict=True):
        rows[index] = _judged(rows[index], p, minimum_effect, alpha)
    return rows


def _count(runs: Sequence[str]) -> str:
    return f"{len(runs)} run{'' if len(runs) == 1 else 's'}"


def _not_comparable(before: Group, after: Group) -> Iterable[str]:
    same = {what: field for what, field in SAME.items() if what != "hardware" or not modelled.are(before, after)}
    for what, field in same.items():
        ours, theirs = ({str(getattr(run, field)) for run in group.runs} for group in (before, after))
        if ours != theirs or len(ours) > 1:
            yield f"{what} differs ({_names(ours)} against {_names(theirs)})"
    for group in (before, after):
        bad = [run for run in group.runs if run.verdict in ("void", *SAY_NOTHING)]
        if bad:
            why = f" ({bad[0].reason})" if bad[0].reason else ""
            yield f"{bad[0].id} says nothing: it is {bad[0].verdict}{why}"


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


def _rows(before: Mapping[Key, list[Figure]], after: Mapping[Key, list[Figure]]) -> list[Row]:
    return [_row(key, before.get(key, []), after.get(key, [])) for key in dict.fromkeys([*before, *after])]


def _row(key: Key, before: Sequence[Figure], after: Sequence[Figure]) -> Row:
    ours, theirs = ([figure.value for figure in figures] for figures in (before, after))
    counts = (len(ours), len(theirs))
    bounds = [figure.bound for figure in (*after, *before) if figure.bound is not None]
    common = (*key, _median(ours), _median(theirs), _median(bounds), counts)
    if 0 in counts:
        return Row(*common, "only one has it")
    if min(counts) < FEWEST or min(*ours, *theirs) <= 0:
        return Row(*common, "too few runs")
    return Row(*common, "no difference shown", shift(ours, theirs))


def _judged(row: Row, p: float, minimum_effect: float, alpha: float) -> Row:
    assert row.shift is not None
    ratio, outcome = row.shift.ratio, row.outcome
    if p < alpha and not 1 / (1 + minimum_effect) < ratio < 1 + minimum_effect:
        outcome = "better" if (ratio > 1) is MORE_IS_BETTER[row.name] else "worse"
    return Row(**{**row.__dict__, "outcome": outcome, "p_adjusted": p})


def _median(values: Sequence[float]) -> float | None:
    ordered, middle = sorted(values), len(values) // 2
    if not ordered:
        return None
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _row_json(row: Row) -> Json:
    told = row.shift
    return {
        **{name: getattr(row, name) for name in ("arm", "name", "unit", "size_bytes", "before", "after", "bound")},
        "runs": list(row.counts),
        "outcome": row.outcome,
        "ratio": told and told.ratio,
        "interval": told and [told.low, told.high],
        "p_adjusted": row.p_adjusted,
    }
