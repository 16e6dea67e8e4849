"""Which trainings a log of Megatron-LM holds, where each begins, and whether it came to its end."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.errors import UsageError
from reports.store.readers.deaths import death
from reports.store.readers.lines import Line
from reports.store.readers.origin import origin

ENDED = re.compile(r"exiting (?:the )?program (?:at iteration \d+|after [\d.]+ minutes)|after training is done")
"""`--exit-interval`, `--exit-duration-in-mins`, and the last iteration."""
STOPPED = re.compile(r"exiting program after receiving \S+")
"""Somebody ended the job, and Megatron saved what it had."""


@dataclass(frozen=True)
class Step:
    """One line. `before` is what stands before it; `step_ms` is the mean since the line before, as the counts are."""

    line: int
    before: str
    iteration: int
    total: int | None
    step_ms: float
    tflops_per_gpu: float | None
    loss: float | None
    """May be nan or inf; None where the line says none."""
    skipped: int | None
    nan: int | None
    batch: int | None


@dataclass(frozen=True)
class End:
    """A line that says that a job came to its end, or, with `why`, that it did not."""

    line: int
    origin: str
    why: str = ""


@dataclass(frozen=True)
class Training:
    """The lines of one process' life."""

    origin: str
    steps: Sequence[Step]
    completed: bool
    why: str


def end_of(line: Line) -> End | None:
    """What a line says about the end; None for nothing."""
    if (found := ENDED.search(line.text)) is not None:
        return End(line.number, origin(line.text[: found.start()].rstrip("[ ")))
    stopped = STOPPED.search(line.text)
    why = f"'{stopped[0].rstrip('.')}'" if stopped is not None else death(line.text)
    return End(line.number, "", f"line {line.number}: {why}") if why else None


def found(steps: Iterable[Step], ends: Sequence[End]) -> list[Training]:
    """In the order of their first lines. UsageError where the lines of two are mixed."""
    by_origin: dict[str, list[Step]] = {}
    for step in steps:
        by_origin.setdefault(origin(step.before), []).append(step)
    made = [
        _training(of, lives, place, [end for end in ends if _may_be_of(end, of, lives[place], by_origin)])
        for of, told in by_origin.items()
        for lives in [_lives(told)]
        for place in range(len(lives))
    ]
    return sorted(made, key=lambda training: training.steps[0].line)


def _may_be_of(end: End, of: str, life: Sequence[Step], by_origin: Mapping[str, Sequence[Step]]) -> bool:
    """Another rank may say that a job ended, as long as no other training has said anything in between."""
    if end.why or end.origin == of:
        return True
    others = (step.line for other, steps in by_origin.items() if other != of for step in steps)
    return not any(life[0].line < line < end.line for line in others)


def _lives(steps: Sequence[Step]) -> list[list[Step]]:
    """Iterations only grow in one process' life: where they do not, the job was started again."""
    lives, same = [[steps[0]]], list[Step]()
    for before, after in itertools.pairwise(steps):
        if after.iteration > before.iteration and after.total == before.total:
            lives[-1].append(after)
            continue
        lives.append([after])
        same += [after] if after.iteration == before.iteration else []
    if len(same) > 1:
        raise UsageError(
            f"line {same[0].line}: iteration {same[0].iteration} comes a second time: the lines of several trainings "
            "are mixed here",
            "one file for each",
        )
    return lives


def _training(of: str, lives: Sequence[list[Step]], place: int, ends: Sequence[End]) -> Training:
    """An end belongs to the life that it falls into."""
    steps = lives[place]
    until = lives[place + 1][0].line if place + 1 < len(lives) else None
    mine = [end for end in ends if end.line > steps[0].line and (until is None or end.line < until)]
    completed = steps[-1].iteration == steps[-1].total or any(not end.why for end in mine)
    last = f"the last line is that of iteration {steps[-1].iteration} of {steps[-1].total or 'no end'}"
    return Training(of, steps, completed, next((end.why for end in mine if end.why), f"{last} (line {steps[-1].line})"))
