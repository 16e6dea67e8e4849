"""Whether more repeats may settle what medians left open. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chaos.analysis.model import DEVIATED, HOLDS, VOID, Arm
from chaos.analysis.verdict import BASELINE, RATIO, times
from chaos.experiment.model import Hypothesis


def more_repeats(arms: Sequence[Arm], hypothesis_of: Callable[[str], Hypothesis], left: int) -> int:
    """How many repeats to add now, of `left` that may be.

    One where too many were void. All of them where repeats do not agree, or the ratio to stock is over its limit: who
    stopped at the first median that holds would find one. None where a repeat did wrong, or nothing is open.
    """
    unsettled = [arm for arm in arms if arm.as_expected is not True]
    if not unsettled or any(run.verdict != HOLDS for arm in unsettled for run in arm.runs):
        return 0
    stock = [run for arm in arms if arm.name == BASELINE for run in arm.runs]
    wants = [
        _wants(arm, hypothesis_of(arm.name), void=any(run.void for run in [*arm.runs, *stock])) for arm in unsettled
    ]
    return 0 if None in wants else left if "all" in wants else min(1, left)


def _wants(arm: Arm, hypothesis: Hypothesis, *, void: bool) -> str | None:
    """`one`, `all`, or None where more of the same would change nothing."""
    if hypothesis.times == "each":
        return None
    open_ = {RATIO, *_kept(arm, hypothesis)}
    wrong = [check for check in arm.checks if check.outcome != HOLDS]
    if any(not void if check.outcome == VOID else check.name not in open_ for check in wrong):
        return None
    return "all" if any(check.outcome == DEVIATED for check in wrong) else "one"


def _kept(arm: Arm, hypothesis: Hypothesis) -> set[str]:
    """The limits in ms that some repeat that counts keeps to."""
    found = [judged for run in arm.runs if not run.void for judged in times(run, hypothesis, arm.mode).items()]
    return {name for name, (value, limit) in found if value is not None and limit is not None and value <= limit}
