"""`r2cc sim validate`: the simulator held to formulas, to published figures, and to what we measured.

A check is a formula that must be met exactly, a figure that its authors or we measured, or a promise (bounds, bytes,
workers). Misses that are known have their reason beside them and count as misses, in words: nothing is left out."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.simulate.validate import formulas, lab, measured, promises
from chaos.simulate.validate.checks import Check

MEASURED = (("lab ", "all-reduces of the lab"), ("GPUs, ", "all-reduces of NCCL on GPUs"), ("hit, ", "pulled cables"))
"""What we measured ourselves, by how its checks' names begin."""


def run_checks() -> list[Check]:
    """All of them, in a second."""
    return [check for part in (formulas, measured, lab, promises) for check in part.checks()]


def good(found: Sequence[Check]) -> bool:
    """Whether nothing deviates; misses whose reason is known are told, but are none of today's."""
    return all(check.outcome != "deviated" for check in found)


def text(found: Sequence[Check], *, quiet: bool) -> str:
    """One line a check, and what they come to. `quiet`: only what deviates, so mostly nothing."""
    if quiet:
        return "\n".join(_line(check) for check in found if check.outcome == "deviated")
    lines = [_line(check) for check in found]
    lines += [_counted([check for check in found if check.name.startswith(begin)], what) for begin, what in MEASURED]
    counts = {outcome: sum(check.outcome == outcome for check in found) for outcome in ("holds", "known", "deviated")}
    told = f"{counts['holds']} of {len(found)} checks hold"
    told += f", {counts['known']} miss for a known reason" if counts["known"] else ""
    return "\n".join([*lines, f"{told}, {counts['deviated']} deviate"])


def _counted(found: Sequence[Check], what: str) -> str:
    """Whatever the reason of those that miss."""
    held = sum(check.outcome == "holds" for check in found)
    within = f"{100 * max((check.tolerance for check in found), default=0):g} %"
    return f"{held} of {len(found)} {what} within {within}"


def _line(check: Check) -> str:
    note = f": {check.note}" if check.outcome != "holds" and check.note else ""
    return f"{check.outcome:<8} {check.name}: {check.value:.4g} ({check.bound}){note}"
