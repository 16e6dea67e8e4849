"""From figures to verdicts: what a hypothesis says about each run, each arm and the whole experiment. Pure.

Correctness (`exact`, `completes`) is always judged. Figures of a void run are not: they neither hold nor deviate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from chaos.analysis.bounds import BALANCE, MIGRATE
from chaos.analysis.figures import metric
from chaos.analysis.identical import DIGEST, identical, why
from chaos.analysis.model import DEVIATED, FAILED, HOLDS, VOID, Arm, Check, FaultFigures, Metric, Outcome, Run, Verdict
from chaos.analysis.moves import unmentioned
from chaos.analysis.stats import median
from chaos.experiment.model import Hypothesis

BASELINE = "stock"
RATIO = "healthy_ratio"
BOUNDED = (MIGRATE, BALANCE)
"""Modes that have a bound to be compared with."""


def check(name: str, value: float | bool | None, bound: float | bool | None, unit: str, *, void: bool = False) -> Check:
    """Judges one value. A figure that could not be measured is void: it must not pass for want of a number."""
    outcome: Outcome
    if void or value is None or bound is None:
        outcome = VOID
    elif isinstance(bound, bool):
        outcome = HOLDS if value == bound else DEVIATED
    else:
        outcome = HOLDS if value <= bound else DEVIATED
    return Check(name, outcome, value, bound, unit)


def run_checks(run: Run, hypothesis: Hypothesis, mode: int) -> list[Check]:
    """Everything the hypothesis says about one run."""
    checks = []
    if hypothesis.exact and run.checked is not False:
        checks.append(check("exact", run.wrong_elements, 0, "elements"))
    if hypothesis.completes:
        checks.append(check("completes", run.completed, True, "bool"))
    checks += _on_moves(run, hypothesis)
    if hypothesis.results_from is not None:
        left = [result for key, result in run.results.items() if key.endswith(f"/{DIGEST}")]
        alike = len(left) >= hypothesis.results_from and len(set(left)) == 1
        checks.append(check(f"results_from({hypothesis.results_from})", alike, True, "bool"))
    void = bool(run.void)
    if hypothesis.failed_requests_max is not None:
        failed = run.metric("failed_requests")
        checks.append(check("failed_requests", failed, hypothesis.failed_requests_max, "requests"))
    checks += _on_gaps(run, hypothesis.longest_gap_ms_max, void=void)
    if hypothesis.times == "each":
        for name, (value, limit) in times(run, hypothesis, mode).items():
            checks.append(check(name, value, limit, "ms", void=void))
    if hypothesis.undisturbed_within is not None:
        worst = run.metric("undisturbed_worst")
        checks.append(check("undisturbed", worst, 1 + hypothesis.undisturbed_within, "ratio", void=void))
    return checks


def _on_gaps(run: Run, limit: float | None, *, void: bool) -> list[Check]:
    """Of servers. Not all of them say when nothing came of any stream."""
    if limit is None:
        return []
    found = [check("longest_token_gap", run.metric("longest_token_gap"), limit, "ms", void=void)]
    silence = run.metric("longest_silence")
    return found if silence is None else [*found, check("longest_silence", silence, limit, "ms", void=void)]


def times(run: Run, hypothesis: Hypothesis, mode: int) -> dict[str, tuple[float | None, float | None]]:
    """(value, limit) in ms of each figure of each fault that the hypothesis speaks of, as `stall_ms(cable)`."""
    return {
        f"{name}({fault.id})": (getattr(fault, name), limit)
        for fault in run.faults
        for name, limit in limits_on(fault, hypothesis, run.healthy_ms.median, mode).items()
    }


def median_checks(runs: Sequence[Run], hypothesis: Hypothesis, mode: int, asked: int) -> list[Check]:
    """The same over all repeats that are not void, by their medians; void when fewer are left than half of those that
    were asked for, and where fewer than half of them have the figure."""
    if hypothesis.times == "each" or not runs:
        return []
    valid = [run for run in runs if not run.void]
    void = 2 * len(valid) < min(asked, len(runs))
    found = [times(run, hypothesis, mode) for run in valid or runs]
    checks = []
    for name in dict.fromkeys(name for each in found for name in each):
        values, limits = zip(*(each[name] for each in found if name in each), strict=True)
        unknown = 2 * sum(value is None for value in values) > len(values)
        checks.append(check(name, _median(values), _median(limits), "ms", void=void or unknown))
    return checks


def _on_moves(run: Run, hypothesis: Hypothesis) -> list[Check]:
    """What the net library did: counted, not timed, and so judged on a busy machine, too."""
    checks = []
    if hypothesis.failovers_max is not None:
        checks.append(check("failovers", run.metric("failovers"), hypothesis.failovers_max, "connections"))
    if hypothesis.shared_out_max is not None:
        checks.append(check("shared_out", run.metric("shared_out"), hypothesis.shared_out_max, "times"))
    if hypothesis.returned is not None:
        value = run.metric("not_returned")
        checks.append(check("returned", value == 0 if value is not None else None, hypothesis.returned, "bool"))
    if hypothesis.error_within_ms is not None:
        value = run.metric("error_after")
        checks.append(
            check("error_after", value, hypothesis.error_within_ms, "ms")
            if value is not None
            else check("errors_on_every_rank", False, True, "bool")
        )
    if hypothesis.error_mentions:
        missing = unmentioned(run.errors, hypothesis.error_mentions)
        checks.append(check(f"errors_mention({', '.join(hypothesis.error_mentions)})", len(missing), 0, "missing"))
    return checks


def limits_on(fault: FaultFigures, hypothesis: Hypothesis, healthy: float | None, mode: int) -> dict[str, float | None]:
    """The limit on each of a fault's figures that the hypothesis speaks of; None where it cannot be known.

    Bounds exist for the modes that have one: a stock iteration is bound by the outage alone.
    """
    asked: dict[str, tuple[float | None, float | None]] = {
        "stall_ms": (hypothesis.stall_ms_max, hypothesis.stall_ms_max),
        "return_ms": (hypothesis.return_ms_max, hypothesis.return_ms_max),
        "after_ms": (hypothesis.after_within_healthy, _over(healthy, hypothesis.after_within_healthy)),
    }
    longest, within = hypothesis.longest_ms_max, hypothesis.longest_within_healthy
    limits = [limit for limit in (longest, _over(healthy, within)) if limit is not None]
    asked["longest_ms"] = (within if longest is None else longest, min(limits, default=None))
    limit = hypothesis.iteration_beyond_ms_max
    asked["beyond_ms"] = (limit, limit)
    if mode in BOUNDED:
        within = hypothesis.iteration_within_bound
        asked["iteration_ms"] = (within, _over(fault.iteration_bound_ms, within))
        within = hypothesis.degraded_within_bound
        asked["degraded_ms"] = (within, _over(fault.degraded_bound_ms, within))
    return {name: limit for name, (wanted, limit) in asked.items() if wanted is not None}


def _over(bound: float | None, share: float | None) -> float | None:
    return None if bound is None or share is None else round(bound * (1 + share), 4)


def combine(checks: Sequence[Check]) -> Outcome:
    """Deviated if anything that could be judged deviated, else void if anything could not, else holds."""
    outcomes = {check.outcome for check in checks}
    return DEVIATED if DEVIATED in outcomes else VOID if VOID in outcomes else HOLDS


def run_verdict(checks: Sequence[Check], failure: str | None) -> Verdict:
    """`failed` when the run could not be carried out, whatever its figures."""
    return FAILED if failure is not None else combine(checks)


def compare_with_stock(
    runs: Sequence[Run], stock: Sequence[Run], hypothesis: Hypothesis, asked: int
) -> tuple[list[Metric], list[Check]]:
    """(metrics, checks) of an arm against the stock arm: the median over interleaved repeats, paired by repeat."""
    by_run = {run.run: run for run in stock}
    pairs = [(run, by_run[run.run]) for run in runs if run.run in by_run]
    valid = [pair for pair in pairs if not any(run.void for run in pair)]
    void = len(valid) < len(pairs)
    if hypothesis.times == "median" and 2 * len(valid) >= min(asked, len(pairs)):
        pairs, void = valid, False
    size = next((metric.size_bytes for run in runs for metric in run.metrics), None)
    ratio = _median([_ratio(a.healthy_ms.median, b.healthy_ms.median) for a, b in pairs])
    memory = _median([_less(a.metric("rank_memory"), b.metric("rank_memory")) for a, b in pairs])
    limits = (hypothesis.healthy_ratio_max, hypothesis.memory_over_stock_bytes_max)
    metrics = [
        metric(RATIO, "ratio", size, ratio, limits[0]),
        metric("rank_memory_over_stock", "bytes", size, memory, limits[1]),
    ]
    checks = [check(RATIO, ratio, limits[0], "ratio", void=void)] if limits[0] is not None else []
    if limits[1] is not None:
        checks.append(check("rank_memory_over_stock", memory, limits[1], "bytes"))
    if hypothesis.identical is not None:
        same = identical(runs, stock)
        checks.append(check("identical", same, hypothesis.identical, "bool"))
    return metrics, checks


def _ratio(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base else None


def _less(value: float | None, base: float | None) -> float | None:
    return value - base if value is not None and base is not None else None


def _median(values: Sequence[float | None]) -> float | None:
    return median([value for value in values if value is not None])


def arm_verdict(runs: Sequence[Run], checks: Sequence[Check]) -> Verdict:
    """The worst of its runs and of what is judged over all of them."""
    worst: tuple[Verdict, ...] = (FAILED, DEVIATED, VOID)
    verdicts = {run.verdict for run in runs} | ({combine(checks)} if checks else set())
    return next((verdict for verdict in worst if verdict in verdicts), HOLDS if runs else FAILED)


def as_expected(arm: Arm, hypothesis: Hypothesis) -> bool | None:
    """Whether an arm did what it was expected to; None when that could not be judged.

    An arm expected to deviate may be slow or not complete; wrong results are never as expected, unless the arm's own
    hypothesis says `exact: false`.
    """
    checks = [*(check for run in arm.runs for check in run.checks), *arm.checks]
    if arm.verdict == FAILED:
        return None
    if hypothesis.exact and any(run.wrong_elements for run in arm.runs):
        return False
    if arm.expect == "any":
        return True
    if arm.expect == "holds":
        return {HOLDS: True, DEVIATED: False, VOID: None}[arm.verdict]
    every = [run.verdict == DEVIATED for run in arm.runs]
    if hypothesis.times == "median":
        every = [arm.verdict == DEVIATED]
    return True if all(every) else None if any(check.outcome == VOID for check in checks) else False


def overall(arms: Sequence[Arm], *, void_ok: bool) -> tuple[Verdict, Literal[0, 1, 3]]:
    """(verdict, exit code) of the experiment; with `void_ok` a void one ends with 0 if all that was judged held."""
    answers = {arm.as_expected for arm in arms}
    if any(arm.verdict == FAILED for arm in arms) or not arms:
        return FAILED, 3
    if False in answers:
        return DEVIATED, 1
    if None in answers:
        return VOID, 0 if void_ok else 3
    return HOLDS, 0


def reasons(arms: Sequence[Arm]) -> list[str]:
    """For people: why the experiment is not simply `holds`."""
    found: list[str] = []
    stock = next((arm.runs for arm in arms if arm.name == BASELINE), [])
    for arm in arms:
        if arm.as_expected is False:
            found.append(f"{arm.name} was expected to {_verb(arm.expect)} and {arm.verdict}")
        for reason, runs in _void_for(arm).items():
            found.append(f"{arm.name}, run{'s' * (len(runs) > 1)} {', '.join(map(str, runs))}: void: {reason}")
        for run in arm.runs:
            place = f"{arm.name}, run {run.run}"
            if arm.as_expected is not True or run.verdict == FAILED:
                found += [f"{place}: {error}" for error in run.errors]
                found += [f"{place}: {_sentence(check)}" for check in run.checks if _counts(check, run)]
        if arm.as_expected is not True:
            found += [f"{arm.name}: {_sentence(check)}" for check in arm.checks if check.outcome != HOLDS]
            found += [f"{arm.name}: {text}" for text in _unlike(arm, stock)]
    return list(dict.fromkeys(found))


def _void_for(arm: Arm) -> dict[str, list[int]]:
    """Which runs are void for the same reason."""
    found: dict[str, list[int]] = {}
    for run in arm.runs:
        for reason in run.void:
            found.setdefault(reason, []).append(run.run)
    return found


def _unlike(arm: Arm, stock: Sequence[Run]) -> list[str]:
    """Where its results first differ from stock's."""
    judged = any(check.name == "identical" and check.outcome != HOLDS for check in arm.checks)
    return [text] if judged and (text := why(arm.runs, stock)) else []


def _counts(check: Check, run: Run) -> bool:
    """Of a run that was cut short no time does, nor that it is not complete; wrong results do."""
    return check.outcome == DEVIATED and check.name == "exact" if run.cut else check.outcome != HOLDS


def _verb(expect: str) -> str:
    return {"holds": "hold", "deviates": "deviate", "any": "give exact results"}[expect]


def _sentence(check: Check) -> str:
    value = "not measured" if check.value is None else f"{check.value}"
    return f"{check.name} {value} {check.unit} (limit {check.bound}): {check.outcome}"
