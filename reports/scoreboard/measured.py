"""Measures what is left of some cells, for as long as there is time; what is done stays done."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import InfraError
from harness.schemas.form import form
from reports.scoreboard.board import Cell
from reports.scoreboard.figures import unclear
from reports.scoreboard.takes import Shelf, Take, Version, build, gpus, lacks, measure, version


@form("scoreboard_run", "r2cc results run: cells by what came of them")
@dataclass
class Ended:
    """Names; a cell with several takes is in `measured` once for each."""

    measured: list[str] = field(default_factory=list)
    had: list[str] = field(default_factory=list)
    """measured before"""
    elsewhere: list[str] = field(default_factory=list)
    """this machine cannot"""
    failed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """time was up"""


def go(
    cells: Sequence[Cell], shelf: Shelf, root: Path, *, minutes: float | None, again: bool, dry_run: bool, quiet: bool,
    tell: Callable[[str], None],
) -> Ended:  # fmt: skip
    """`minutes`: no cell begins that would take longer than what is left of them."""
    until = None if minutes is None else time.monotonic() + minutes * 60
    of, cards, cores = version(root), gpus(), len(os.sched_getaffinity(0))
    ended = Ended()
    built, lacking, would_min = dry_run, 0, 0.0
    for cell in cells:
        if missing := lacks(cell.where, cores, len(cards)):
            ended.elsewhere.append(cell.name)
            tell(f"{cell.name}: not here: it needs {missing}")
            continue
        wanted = _wanted(cell, shelf, of, again=again)
        if not wanted:
            ended.had.append(cell.name)
        for number in range(wanted):
            if until is not None and time.monotonic() + cell.minutes * 60 > until:
                ended.left.append(cell.name)
                tell(f"{cell.name}: {wanted - number} takes are left: it takes {cell.minutes:g} minutes")
                break
            tell(f"{cell.name}: {cell.title}, about {cell.minutes:g} minutes: {' '.join(cell.run)}")
            if dry_run:
                lacking, would_min = lacking + 1, would_min + cell.minutes
                continue
            try:
                if not built:
                    build(quiet=quiet)
                    built = True
                path = shelf.add(_clear(cell, measure(cell, of, cards, quiet=quiet)))
            except InfraError as error:
                ended.failed.append(cell.name)
                tell(f"error: {error}")
                break
            ended.measured.append(cell.name)
            tell(f"{cell.name}: {path}")
    if dry_run:
        tell(f"{lacking} takes are lacking, about {would_min:.0f} minutes")
    return ended


def _clear(cell: Cell, take: Take) -> Take:
    """InfraError where the take lacks a figure of the cell: it is not kept."""
    if problems := unclear(cell, take):
        raise InfraError(f"{cell.name}: {'; '.join(problems)}", "see what its command prints, or mend the board's file")
    return take


def _wanted(cell: Cell, shelf: Shelf, of: Version, *, again: bool) -> int:
    """How many takes the code as it is lacks."""
    there = sum(take.code == of.code for take in shelf.takes(cell.name))
    return max(cell.takes - there, 1 if again else 0)
