"""The verdict in one plain sentence, and what has to be said next to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chaos.analysis.model import Arm, Run, Summary
from reports.words import names
from reports.words.cells import counted
from reports.words.units import count, ms

INTERRUPTED = 130
"""The exit code after Ctrl-C."""
IMPORTED = "imported"
"""The bed of runs that `r2cc runs import` made."""


def headline(summary: Summary) -> str:
    """The first thing a reader sees: what the fault cost with R2CC and without."""
    arms = summary.arms
    verdict = summary.verdict
    if summary.exit_code == INTERRUPTED:
        return f"The experiment was interrupted, so it says nothing about R2CC. {_before(arms)}"
    if verdict == "failed" or not arms:
        return "The experiment could not be carried out to its end, so it says nothing about R2CC."
    compared = _compare(arms)
    if verdict == "void":
        return _void(arms, compared)
    if verdict == "deviated":
        odd = [names.spoken(a.name) for a in arms if a.as_expected is False]
        blame = f"Not as expected: {_listed(odd)}." if odd else "Not every arm did as expected."
        return f"{blame} {compared}".strip()
    return compared or _results(summary)


def _before(arms: Sequence[Arm]) -> str:
    """What there is of an experiment that was interrupted."""
    whole = sum(not run.cut for arm in arms for run in arm.runs)
    return f"{count(whole, 'run')} {'was' if whole == 1 else 'were'} complete." if whole else "No run was complete."


def _void(arms: Sequence[Arm], compared: str) -> str:
    """What the valid repeats say, if our arm has any; how many are void."""
    runs = [run for arm in arms for run in arm.runs]
    void = sum(not is_valid(run) for run in runs)
    busy = "the machine was too busy or too uneven to measure"
    if not void:
        return f"{compared or correctness(arms)} Not all of what was expected could be judged.".strip()
    if void < len(runs) and compared and _stall(best_arm(arms)) is not None:
        return f"{compared} {void} of {count(len(runs), 'repeat')} {'is' if void == 1 else 'are'} void: {busy}."
    return f"The times below say nothing: {busy}. {correctness(arms)}"


def _results(summary: Summary) -> str:
    """Of a run that met no fault. What another tool did not check is not said to be right."""
    arms = summary.arms
    checked = any(check.name == "exact" for arm in arms for run in arm.runs for check in run.checks)
    return correctness(arms) if summary.bed != IMPORTED or checked else _unchecked(arms)


def _unchecked(arms: Sequence[Arm]) -> str:
    """Of results whose elements nobody compared with the right ones."""
    same = [check.value for arm in arms for check in arm.checks if check.name == "identical"]
    done = f"{count(_done(arms), 'iteration')} completed"
    return (
        f"{done}, with the same results as stock." if same and all(same) else f"{done}; nobody checked their results."
    )


def correctness(arms: Sequence[Arm]) -> str:
    """What holds even when times do not count: how many iterations ran, and whether every element was right."""
    done = _done(arms)
    wrong = sum(r.wrong_elements for a in arms for r in a.runs)
    if wrong:
        return f"{count(wrong, 'element')} of the results {'was' if wrong == 1 else 'were'} wrong."
    if not done:
        return "No iteration was completed."
    if all(run.checked is False for arm in arms for run in arm.runs):
        return _unchecked(arms)
    return "The one iteration gave exact results." if done == 1 else f"All {done} iterations gave exact results."


def _done(arms: Sequence[Arm]) -> int:
    return sum(r.iterations for a in arms for r in a.runs)


def is_valid(run: Run) -> bool:
    """Whether a repeat's times count."""
    return not run.void


def worst_stall_ms(arm: Arm) -> float | None:
    """The longest stall over the repeats that count and their faults; None when none could be measured."""
    return worst(fault.stall_ms for run in counted(arm) for fault in run.faults)


def worst(values: Iterable[float | None]) -> float | None:
    """The largest of some numbers, leaving out those that could not be measured."""
    known = [float(v) for v in values if v is not None]
    return max(known, default=None)


def best_arm(arms: Sequence[Arm]) -> Arm | None:
    """The arm of ours with the highest mode: what R2CC can do at best in this run."""
    ours = [a for a in arms if a.name not in names.BASELINES]
    return max(ours, key=lambda a: a.mode, default=None)


def _compare(arms: Sequence[Arm]) -> str:
    """Never of a void repeat: a sentence has no room to say that a time does not count."""
    ours, stock = best_arm(arms), next((a for a in arms if a.name == "stock"), None)
    kind = fault_kind(arms)
    if ours is None or kind is None:
        return ""
    cost, base = _stall(ours), _stall(stock)
    if all(run.heard is False for run in ours.runs):
        return "R2CC's library said nothing in this run, so nothing shows that it was in the path (r2cc doctor --pid)."
    text = (
        f"With R2CC the {names.fault(kind)} cost {ms(cost)}"
        if cost is not None
        else f"R2CC came through the {names.fault(kind)}"
    )
    return f"{text}; stock NCCL stalled for {ms(base)}." if base is not None else f"{text}."


def _stall(arm: Arm | None) -> float | None:
    """None where every repeat is void."""
    return worst_stall_ms(arm) if arm is not None and any(map(is_valid, counted(arm))) else None


def _listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def fault_kind(arms: Sequence[Arm]) -> str | None:
    """The kind of the first fault that any arm met."""
    return next((f.kind for a in arms for r in a.runs for f in r.faults), None)
