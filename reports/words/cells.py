"""What tables are made of: cells and rows, and which repeats count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaos.analysis.model import Arm, Run


@dataclass(frozen=True)
class Cell:
    """A value, what it is held against, and how it came out: good, bad, void or nothing; or a row's `head`."""

    text: str
    note: str = ""
    state: str = ""
    head: bool = False

    def plain(self) -> str:
        """For Markdown and terminals."""
        sign = {"good": " ✓", "bad": " ✗", "void": " (void)"}.get(self.state, "")
        return f"{self.text}{sign}" + (f" ({self.note})" if self.note else "")


@dataclass(frozen=True)
class Tile:
    """A big figure at the top of the page."""

    value: str
    label: str
    kind: str = ""


@dataclass(frozen=True)
class Row:
    """One line of a table: a name, an explanation for newcomers, and a cell for each arm."""

    name: str
    help: str
    cells: list[Cell]


def whole(arm: Arm) -> Sequence[Run]:
    """The repeats that were not cut short, where there is one."""
    return [run for run in arm.runs if not run.cut] or list(arm.runs)


def counted(arm: Arm) -> Sequence[Run]:
    """The repeats that times are taken of: the whole ones that are not void, where there is one."""
    return [run for run in whole(arm) if not run.void] or whole(arm)


def ran(runs: Sequence[Run]) -> bool:
    """Whether there are results of which something can be said."""
    return any(run.iterations or not run.cut for run in runs)


def void(arm: Arm) -> str:
    """The state of a time of this arm."""
    return "void" if any(run.void for run in counted(arm)) else ""
