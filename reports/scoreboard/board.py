"""What docs/results/scoreboard.yaml says: cells with their commands and figures, and what others published."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr, model_validator

from chaos.faults.spec import Model
from harness.config import documents
from harness.config.fitting import fitted
from harness.config.kinds import SCOREBOARD
from harness.config.words import in_order
from harness.errors import InputErrors

NAME = r"^[a-z0-9][a-z0-9_]{0,63}$"
Machine = Literal["two_cores", "sixteen_cores", "one_gpu", "two_gpus", "four_gpus", "uml"]
PROGRAMS = ("r2cc", "benchmarks/")


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from error
    return text


def _command(words: tuple[str, ...]) -> tuple[str, ...]:
    if not words[0].startswith(PROGRAMS):
        raise ValueError("it begins with r2cc, or with a program of benchmarks/")
    return words


class Wanted(Model):
    """A figure of a cell, by the name that the benchmark or the experiment gives it."""

    of: Annotated[StrictStr, AfterValidator(_pattern)]
    """A regular expression that finds one figure."""
    label: StrictStr
    aim: float | None = None
    """Without it: the bound that the benchmark or the experiment's hypothesis has."""
    at_least: StrictBool | None = None
    missed: StrictStr = ""
    """Why it is missed, and what bounds it: shown where it is."""
    readme: StrictBool = False


class Cell(Model):
    """One command whose JSON holds the figures: a benchmark, or `r2cc chaos run`."""

    name: Annotated[StrictStr, Field(pattern=NAME)]
    group: StrictStr
    title: StrictStr
    where: Machine
    run: Annotated[tuple[StrictStr, ...], Field(min_length=1), AfterValidator(_command)]
    """Without --json, which is added."""
    minutes: Annotated[float, Field(gt=0, le=120)]
    takes: Annotated[StrictInt, Field(ge=1, le=100)] = 1
    figures: Annotated[tuple[Wanted, ...], Field(min_length=1)]
    note: StrictStr = ""


class Published(Model):
    """What others say of their own work: theirs, not measured here."""

    what: StrictStr
    value: StrictStr
    source: StrictStr
    meaning: StrictStr
    compares: StrictStr
    """With which of our cells, or why with none."""


class Board(Model):
    """The whole file."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    title: StrictStr
    cells: Annotated[tuple[Cell, ...], Field(min_length=1)]
    published: tuple[Published, ...] = ()

    @model_validator(mode="after")
    def _named_apart(self) -> Board:
        names = [cell.name for cell in self.cells]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two cells have the name {', '.join(twice)}")
        return self


def load(path: Path) -> Board:
    """Reads and checks it. InputErrors with every error, UsageError when it cannot be read."""
    document = documents.load(path, SCOREBOARD)
    errors = list(document.errors)
    board = None
    if not document.unreadable:
        board = fitted(Board, document.value, lambda place, text: errors.append(document.said(place, text)))
    if board is None or errors:
        raise InputErrors(in_order(errors, str(path)))
    return board
