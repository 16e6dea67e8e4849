"""The gate's judgement: runs of a change against a baseline, or a stored history for changes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Annotated, Any, Final, Literal

from chaos.analysis.stats import spread
from ci.policy import Named, Policy
from harness.config.words import listed
from harness.errors import UsageError
from harness.schemas.form import Limits, form
from reports.compare.model import MORE_IS_BETTER
from reports.statistics.changes import changes
from reports.statistics.gate import Series, judge
from reports.store.entry import SAY_NOTHING, Entry

PASSED: Final = "passed"
REGRESSED: Final = "regressed"
NOT_JUDGED: Final = "not judged"
RECORDED: Final = "recorded"
EXIT_CODES = {PASSED: 0, REGRESSED: 1, NOT_JUDGED: 3, RECORDED: 0}
RECENT = 14
"""A change among the newest so many figures of a history is news; older ones have been told."""
MEASURED = ("holds", "deviated")
"""Verdicts of runs that have figures."""
QUARANTINE: Final = "in quarantine"
TOO_SHORT: Final = "too short"
NO_RUN: Final = "no run"


Outcome = Literal["better", "worse", "no difference shown", "in quarantine", "too short", "no run"]
Verdict = Literal["passed", "regressed", "not judged", "recorded"]


@dataclass(frozen=True)
class Line:
    """What is said of one series."""

    name: str
    outcome: Outcome
    text: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None


@form("ci_gate", "ci gate")
@dataclass(frozen=True)
class Judgement:
    """The gate's answer: one word, why, and a line a series."""

    outcome: Verdict
    exit_code: Annotated[int, Limits(enum=[0, 1, 3])] = field(init=False, default=0)
    reasons: tuple[str, ...] = ()
    series: tuple[Line, ...] = ()

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Judgement:
        """From its JSON, which is one."""
        return cls(value["outcome"], tuple(value["reasons"]), tuple(Line(**line) for line in value["series"]))

    def __post_init__(self) -> None:
        object.__setattr__(self, "exit_code", EXIT_CODES[self.outcome])


def check_runs(policy: Policy, runs: Sequence[Entry]) -> None:
    """UsageError for a run that the policy says nothing about: whatever came of it, it would pass."""
    for run in runs:
        if run.experiment not in policy.experiments:
            judged = f"the policy judges {listed(sorted(policy.experiments))}"
            raise UsageError(f"{run.id} is of the experiment {run.experiment}; {judged}", "name its runs, or --policy")
        wanted = [named for named in policy.series if named.experiment == run.experiment]
        if run.verdict in MEASURED and not any(_values(named, [run]) for named in wanted):
            raise UsageError(
                f"{run.id} has no figure of {listed(named.name for named in wanted)}", "run its arms, or another policy"
            )


def against(policy: Policy, before: Sequence[Entry], after: Sequence[Entry]) -> Judgement:
    """A change against its baseline. Not judged: different hardware or beds, too few runs, runs that say nothing."""
    problems = [*_unfit(before, after)]
    values = {named: (_values(named, before), _values(named, after)) for named in policy.series}
    noisy = {named for named, (ours, _) in values.items() if _quarantined(policy, named, ours)}
    judged = [named for named in policy.series if named not in noisy]
    needed = f"{policy.fewest_runs} of each are needed{_void([*before, *after])}"
    problems += [
        f"{named.name}: {len(ours)} figures before and {len(theirs)} after; {needed}"
        for named in judged
        for ours, theirs in [values[named]]
        if min(len(ours), len(theirs)) < policy.fewest_runs
    ]
    quiet = [Line(named.name, QUARANTINE, f"{named.name}: in quarantine, too noisy to judge") for named in noisy]
    if problems:
        return Judgement(NOT_JUDGED, tuple(problems), tuple(quiet))
    found = judge(
        [Series(named.name, *values[named], more_is_better=MORE_IS_BETTER[named.figure]) for named in judged],
        minimum_effect=policy.minimum_effect,
        alpha=policy.alpha,
        fewest=policy.fewest_runs,
    )
    lines = [
        Line(each.name, each.outcome, each.sentence, each.shift.ratio, each.shift.low, each.shift.high, each.p_adjusted)
        for each in found
    ]
    worse = tuple(line.text for line in lines if line.outcome == "worse")
    return Judgement(REGRESSED if worse else PASSED, worse, (*lines, *quiet))


def history(policy: Policy, runs: Sequence[Entry]) -> Judgement:
    """A stored history, oldest first, of one hardware: whether a series got worse lately and stayed so.

    One that is too short yet is *recorded*; one without a single figure is not: its policy may name what never runs.
    """
    lines = []
    for named in policy.series:
        figures = [median(values) for run in runs if (values := _values(named, [run]))]
        lines.append(_told(policy, named, figures))
    worse = tuple(line.text for line in lines if line.outcome == "worse")
    told = {line.outcome for line in lines}
    if worse or told - {TOO_SHORT, NO_RUN}:
        return Judgement(REGRESSED if worse else PASSED, worse, tuple(lines))
    if told == {NO_RUN}:
        return Judgement(NOT_JUDGED, ("no run has a figure of these series",), tuple(lines))
    return Judgement(
        RECORDED, (f"the history is shorter than {policy.fewest_runs} runs: it is recorded",), tuple(lines)
    )


def _told(policy: Policy, named: Named, figures: Sequence[float]) -> Line:
    if len(figures) < policy.fewest_runs:
        missing: Outcome = TOO_SHORT if figures else NO_RUN
        return Line(named.name, missing, f"{named.name}: {len(figures)} runs; {policy.fewest_runs} are needed")
    recent = [
        each for each in changes(figures, minimum_effect=policy.minimum_effect) if len(figures) - each.index <= RECENT
    ]
    if not recent:
        return Line(named.name, "no difference shown", f"{named.name}: no lasting change")
    last = recent[-1]
    outcome: Outcome = "better" if (last.shift.ratio > 1) is MORE_IS_BETTER[named.figure] else "worse"
    when = f"{len(figures) - last.index} runs ago"
    text = f"{named.name}: {outcome} since {when} ({(last.shift.ratio - 1) * 100:+.1f} %, p {last.p_adjusted:.2g})"
    return Line(named.name, outcome, text, last.shift.ratio, last.shift.low, last.shift.high, last.p_adjusted)


def _unfit(before: Sequence[Entry], after: Sequence[Entry]) -> list[str]:
    found = []
    for what, name in (("hardware", "fingerprint"), ("bed", "bed")):
        values = {str(getattr(run, name)) for run in (*before, *after)}
        if len(values) > 1:
            found.append(f"not comparable because the {what} differs ({', '.join(sorted(values))})")
    found += [f"{run.id} says nothing: {run.verdict}" for run in (*before, *after) if run.verdict in SAY_NOTHING]
    return found


def _void(runs: Sequence[Entry]) -> str:
    count = sum(run.verdict == "void" for run in runs)
    return f" ({count} of {len(runs)} runs are void: the machine was too busy)" if count else ""


def _values(named: Named, runs: Sequence[Entry]) -> list[float]:
    """Repeats one by one, in their order. Void ones are no figures."""
    return [
        figure.value
        for run in runs
        if run.experiment == named.experiment and run.verdict != "void"
        for figure in run.figures
        if (figure.arm, figure.name) == (named.arm, named.figure) and figure.repeat >= 0 and figure.value > 0
        if named.size_bytes is None or figure.size_bytes == named.size_bytes
    ]


def _quarantined(policy: Policy, named: Named, before: Sequence[float]) -> bool:
    share = spread(before)
    return named.name in policy.quarantine or (share is not None and share > policy.noisy)
