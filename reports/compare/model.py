"""What two groups of runs say against each other. Pure: entries of the store in, findings out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from reports.compare import modelled
from reports.statistics.gate import ALPHA, MINIMUM_EFFECT
from reports.statistics.holm import adjusted
from reports.statistics.shift import Shift, shift
from reports.store.entry import Entry, Figure

Outcome = Literal["better", "worse", "no difference shown", "too few runs", "only one has it"]
Json = dict[str, Any]

MORE_IS_BETTER = {
    **dict.fromkeys(("busbw", "algbw", "busbw_in_place", "algbw_in_place", "tokens_per_s", "tflops_per_gpu"), True),
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
class Group:
    """Runs that stand for one thing, such as a build; `label` is what it is called beside the others."""

    label: str
    runs: tuple[Entry, ...]


@dataclass(frozen=True)
class Row:
    """One figure of one arm at one size, on two sides; values are medians of the runs."""

    arm: str
    name: str
    unit: str
    size_bytes: int | None
    before: float | None
    after: float | None
    bound: float | None
    counts: tuple[int, int]
    outcome: Outcome
    shift: Shift | None = None
    p_adjusted: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Of `after` against `before`. With `not_because` nothing is said: figures of different things are no figures."""

    before: str
    after: str
    differs: tuple[str, ...]
    not_because: tuple[str, ...]
    rows: tuple[Row, ...]

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
            "differs": list(self.differs),
            "not_comparable": list(self.not_because),
            "rows": [_row_json(row) for row in self.rows],
        }


def compare(before: Group, after: Group, *, minimum_effect: float = MINIMUM_EFFECT, alpha: float = ALPHA) -> Comparison:
    """Everything that both measured. Holm's correction is over all of its rows: nothing was named beforehand."""
    because = tuple(_not_comparable(before, after))
    if not because and modelled.are(before, after):
        found = tuple(modelled.rows(before, after, minimum_effect))
        return Comparison(before.label, after.label, tuple(_differences(before, after)), because, found)
    rows = [] if because else _rows(_values(before), _values(after))
    tested = [index for index, row in enumerate(rows) if row.shift is not None]
    sure = adjusted([rows[index].shift.p for index in tested])  # type: ignore[union-attr]
    for index, p in zip(tested, sure, strict=True):
        rows[index] = _judged(rows[index], p, minimum_effect, alpha)
    return Comparison(before.label, after.label, tuple(_differences(before, after)), because, tuple(rows))


def grouped(runs: Sequence[Entry], labels: Sequence[str] | None = None) -> list[Group]:
    """Each run for itself, or, where several have one build, one experiment and one bed, those together: repeats."""
    names = labels or [run.id for run in runs]
    found: dict[tuple[str, ...], list[tuple[str, Entry]]] = {}
    for name, run in zip(names, runs, strict=True):
        found.setdefault((run.experiment, run.bed, run.build_id, run.fingerprint, *run.arms), []).append((name, run))
    if len(found) < 2:
        return [Group(name, (run,)) for name, run in zip(names, runs, strict=True)]
    return [Group(_label(several), tuple(run for _, run in several)) for several in found.values()]


def arms_of(run: Entry) -> list[Group]:
    """One run's arms as if they were runs of one arm each, to be compared with each other."""
    return [Group(arm, (_alone(run, arm),)) for arm in run.arms]


def _alone(run: Entry, arm: str) -> Entry:
    figures = tuple(Figure(**{**each.__dict__, "arm": "*"}) for each in run.figures if each.arm == arm)
    return Entry(**{**run.__dict__, "arms": (arm,), "figures": figures})


def _label(several: Sequence[tuple[str, Entry]]) -> str:
    names = [name for name, _ in several]
    return names[0] if len(names) == 1 else f"{several[0][1].build_id[:8] or names[0]} ({len(names)} runs)"


def _not_comparable(before: Group, after: Group) -> Iterable[str]:
    same = {what: field for what, field in SAME.items() if what != "hardware" or not modelled.are(before, after)}
    for what, field in same.items():
        ours, theirs = ({str(getattr(run, field)) for run in group.runs} for group in (before, after))
        if ours != theirs or len(ours) > 1:
            yield f"{what} differs ({_names(ours)} against {_names(theirs)})"
    for group in (before, after):
        bad = [run.id for run in group.runs if run.verdict in ("void", "failed", "unfinished")]
        if bad:
            yield f"{bad[0]} says nothing: it is {next(run.verdict for run in group.runs if run.id == bad[0])}"


def _differences(before: Group, after: Group) -> Iterable[str]:
    fields = {"build": "build_id", "arms": "arms", "seed": "seed"}
    fields |= {"settings": "fingerprint"} if modelled.are(before, after) else {}
    for what, field in fields.items():
        ours, theirs = ({_word(getattr(run, field)) for run in group.runs} for group in (before, after))
        if ours != theirs:
            yield f"{what}: {_names(ours)} -> {_names(theirs)}"


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
