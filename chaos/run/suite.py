"""All experiments of a folder, one after the other, and what they come to together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.analysis.model import Verdict
from chaos.experiment.file import load
from chaos.experiment.model import Experiment
from harness.errors import InputErrors, UsageError
from harness.schemas.form import Count, ExitCode, form, left_out

WORST = (130, 1, 3, 0)
"""Exit codes, the one that counts most first, as a campaign's: what deviated is known, whatever could not be run."""


@dataclass(frozen=True)
class Outcome:
    """One experiment of the suite; `directory` is its run directory as a user would type it."""

    name: str
    verdict: Verdict
    exit_code: ExitCode
    directory: str
    reasons: Sequence[str]


@form("suite", "r2cc chaos run FOLDER: one entry an experiment")
@dataclass(frozen=True)
class Suite:
    """What a folder came to."""

    experiments: Sequence[Outcome]


@dataclass(frozen=True, kw_only=True)
class CheckedFile:
    """An experiment's file; without errors it has all the rest."""

    file: str
    errors: Sequence[str]
    name: str | None = left_out()
    faults: Count | None = left_out()
    arms: Sequence[str] | None = left_out()


@form("validated", "r2cc chaos validate")
@dataclass(frozen=True)
class Validated:
    """All files that were checked."""

    files: Sequence[CheckedFile]


def checked(file: Path) -> CheckedFile:
    try:
        experiment = load(file)
    except InputErrors as error:
        return CheckedFile(file=str(file), errors=error.errors)
    except UsageError as error:
        return CheckedFile(file=str(file), errors=[str(error)])
    faults, arms = len(experiment.faults), list(experiment.arms)
    return CheckedFile(file=str(file), errors=[], name=experiment.name, faults=faults, arms=arms)


def files_of(path: Path) -> list[Path]:
    """A file itself; of a folder every experiment file in it, not those of folders in it. UsageError without one."""
    if not path.is_dir():
        return [path]
    try:
        found = sorted(each for each in path.iterdir() if each.name.endswith(".yaml"))
    except OSError as error:
        raise UsageError(f"cannot look into the folder {path}: {error.strerror}", "check who may read it") from error
    if not found:
        raise UsageError(f"no experiment (*.yaml) in {path}", "for example experiments/false_positives")
    return found


def experiments(path: Path, changes: Mapping[str, Any] | None = None) -> list[Experiment]:
    """The experiment of a file, or all of a folder, checked before any of them is started; `changes` go into each.

    Raises InputErrors with all errors of all files, UsageError when there is none.
    """
    if not path.is_dir():
        return [load(path, changes)]
    errors: list[str] = []
    found: list[Experiment] = []
    for file in files_of(path):
        try:
            found.append(load(file, changes))
        except InputErrors as error:
            errors += error.errors
        except UsageError as error:
            errors.append(error.message)
    if errors:
        raise InputErrors(errors)
    return found


def run_all(
    wanted: Sequence[Experiment], run_one: Callable[[Experiment], Outcome], tell: Callable[[str], None]
) -> list[Outcome]:
    """Runs them in order; an interrupted one is the last."""
    outcomes: list[Outcome] = []
    for number, experiment in enumerate(wanted, start=1):
        tell(f"[{number}/{len(wanted)}] {experiment.name}: {experiment.description}")
        outcomes.append(run_one(experiment))
        tell(f"[{number}/{len(wanted)}] {experiment.name}: {outcomes[-1].verdict}")
        if outcomes[-1].exit_code == 130:
            break
    return outcomes


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """The worst of all."""
    codes = {outcome.exit_code for outcome in outcomes}
    return next(code for code in WORST if code in codes)


def table(outcomes: Sequence[Outcome]) -> str:
    """One line an experiment, and why where it did not go as expected."""
    width = max(len(outcome.name) for outcome in outcomes)
    lines = []
    for outcome in outcomes:
        lines.append(f"{outcome.name:<{width}}  {outcome.verdict:<8}  {outcome.directory}")
        lines += [f"{'':<{width}}    {reason}" for reason in (outcome.reasons if outcome.exit_code else ())]
    return "\n".join(lines)
