"""Marks functions as checks. Their words are in checks.toml, in the order in which they are told."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from harness.doctor.model import Check, Examine, ExamineOne, Severity
from harness.facts import Fact

MADE: dict[str, Check] = {}
"""Checks by id, once the module that has them is imported."""
WORDS = Path(__file__).with_name("checks.toml")


@cache
def words() -> dict[str, dict[str, str]]:
    """What checks mean, by id: `worst`, `meaning`, `remedy`."""
    return tomllib.loads(WORDS.read_text(encoding="utf-8"))


def of_fleet(name: str, *needs: Fact[Any], **options: bool) -> Callable[[Examine], Examine]:
    """Marks a check that compares hosts. Its words are in checks.toml; `options` are those of Check."""

    def mark(examine: Examine) -> Examine:
        about = words()[name]
        MADE[name] = Check(name, Severity(about["worst"]), about["meaning"], about["remedy"], needs, examine, **options)
        return examine

    return mark


def of_host(name: str, *needs: Fact[Any], **options: bool) -> Callable[[ExamineOne], ExamineOne]:
    """The same of one that looks at one host at a time."""

    def mark(examine: ExamineOne) -> ExamineOne:
        of_fleet(name, *needs, **options)(lambda fleet: chain.from_iterable(map(examine, fleet.patients)))
        return examine

    return mark
