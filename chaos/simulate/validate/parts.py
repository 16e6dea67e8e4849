"""`r2cc sim validate`: the simulator held to formulas, to published figures, and to what we measured.

A check is a formula that must be met exactly, a figure that its authors or we measured, or a promise (bounds, bytes,
workers). Misses that are known have their reason beside them and count as misses, in words: nothing is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from chaos.simulate.validate import formulas as validate_formulas
from chaos.simulate.validate import lab as validate_lab
from chaos.simulate.validate import measured as validate_measured
from chaos.simulate.validate import promises as validate_promises
from chaos.simulate.validate.checks import Check

PARTS: tuple[Callable[[], Iterator[Check]], ...] = (
    validate_formulas.checks,
    validate_measured.checks,
    validate_lab.checks,
    validate_promises.checks,
)


def checks() -> list[Check]:
    """All of them, in a second."""
    return [check for part in PARTS for check in part()]
