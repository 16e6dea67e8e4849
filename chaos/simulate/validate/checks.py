"""What a check of the simulator is. `known` and `unexplained`: a miss of a kind that is written down, shown with all
others, with its reason or without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from chaos.simulate.unmodelled import NOT_MODELLED
from harness.schemas.form import form

Outcome = Literal["holds", "known", "unexplained", "deviated"]
NOT_EXPLAINED = "not explained"
"""How such a note ends."""
MOST_KNOWN = 0.2
"""A reason excuses no more than this: what misses by more has another one."""


@dataclass(frozen=True)
class Check:
    """`bound`: what was expected, in words. `basis` of `expected`: a formula, published or measured."""

    name: str
    ours: float
    expected: float
    tolerance: float
    bound: str
    """what is asked for, in words"""
    source: str
    """where the expected value comes from"""
    outcome: Outcome
    """known: it misses, and why is in the note; unexplained: it is of a kind that is known to miss, and nobody knows
    why"""
    note: str = ""
    value: float = field(init=False, default=0.0)
    """what is held against the bound"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", self.ours)


@form("sim_validate", "r2cc sim validate")
@dataclass(frozen=True)
class Checked:
    """All checks of the simulator."""

    outcome: Literal["holds", "deviated"]
    checks: Sequence[Check]
    not_modelled: str = NOT_MODELLED
    """What no figure has in it."""


def near(name: str, ours: float, expected: float, tolerance: float, source: str, *, known: str = "") -> Check:
    """Relative. `known`: why it misses, if it does, by MOST_KNOWN at most."""
    off = abs(ours / expected - 1)
    good = off <= tolerance
    known = known if off <= MOST_KNOWN else ""
    outcome: Outcome = "unexplained" if not good and known.endswith(NOT_EXPLAINED) else _outcome(good, known)
    bound = f"{expected:.6g} within {tolerance:.3g}"
    return Check(name, ours, expected, tolerance, bound, source, outcome, "" if good else known)


def nearest(name: str, pairs: Sequence[tuple[str, float, float]], tolerance: float, source: str) -> Check:
    """Many of a kind (what, ours, expected) as one check: the one that is furthest off is told."""
    what, ours, expected = max(pairs, key=lambda pair: abs(pair[1] / pair[2] - 1))
    good = abs(ours / expected - 1) <= tolerance
    bound = f"{expected:.9g} within {tolerance:.3g}; the furthest off of {len(pairs)}: {what}"
    return Check(name, ours, expected, tolerance, bound, source, _outcome(good, ""))


def at_most(name: str, ours: float, most: float, source: str) -> Check:
    return Check(name, ours, most, 0.0, f"at most {most:.6g}", source, _outcome(ours <= most, ""))


def at_least(name: str, ours: float, least: float, source: str) -> Check:
    return Check(name, ours, least, 0.0, f"at least {least:.9g}", source, _outcome(ours >= least, ""))


def _outcome(good: bool, known: str) -> Outcome:
    return "holds" if good else "known" if known else "deviated"
