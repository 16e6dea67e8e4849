"""What comes in by entry points: reporters of finished runs, kinds of faults and of workloads."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, distributions, entry_points
from pathlib import Path
from typing import Generic, TypeVar

from harness.config import plain
from harness.errors import InfraError, UsageError

T = TypeVar("T")
OURS = "r2cc"
COMPLETING = "_R2CC_COMPLETE"
"""Set while a shell asks what could stand next: nothing else may be printed then."""

REPORTER_GROUP = "r2cc.reporters"
CAMPAIGN_GROUP = "r2cc.campaign_reporters"


class ReporterError(InfraError):
    """The run is complete and on disk, but a report could not be made from it."""


def after_run(run_dir: Path, *, quiet: bool) -> None:
    """Call every entry point of `r2cc.reporters` with the run directory; `quiet` keeps them from printing.

    All are called even if one fails. Raises ReporterError naming each that failed: the run's own files are intact.
    """
    _call(REPORTER_GROUP, run_dir, f"the run itself is complete: `r2cc report {run_dir}` tries again", quiet=quiet)


def after_campaign(folder: Path, *, quiet: bool) -> None:
    """The same with a campaign's directory and `r2cc.campaign_reporters`."""
    _call(CAMPAIGN_GROUP, folder, "the cells' own files are complete: run the campaign again", quiet=quiet)


def _call(group: str, folder: Path, hint: str, *, quiet: bool) -> None:
    failures: list[tuple[str, Exception]] = []
    for entry in sorted(entries(group), key=lambda entry: entry.name):
        try:
            entry.load()(folder, quiet=quiet)
        except Exception as error:  # noqa: BLE001 - reporters are plug-ins: one must not cost the others their report
            failures.append((entry.name, error))
    if failures:
        what = "; ".join(f"{name}: {type(error).__name__}: {error}" for name, error in failures)
        raise ReporterError(f"no report could be made of {folder} ({what})", hint=hint) from failures[0][1]


@dataclass(frozen=True)
class Kinds(Generic[T]):
    """What a group's entry points are, by name; of those that cannot be used, one line each."""

    made: Mapping[str, T]
    problems: Mapping[str, str]


@cache
def entries(group: str) -> tuple[EntryPoint, ...]:
    """All entry points of a group, read once: they lie in a file of each distribution that is installed.

    A distribution whose own cannot be read is said on stderr, once, and left out.
    """
    try:
        return tuple(entry_points(group=group))
    except (TypeError, ValueError):
        return tuple(entry for each in _readable() for entry in each if entry.group == group)


@cache
def _readable() -> list[EntryPoints]:
    found: dict[str, EntryPoints] = {}
    for each in distributions():
        if each.name in found:
            continue
        try:
            found[each.name] = each.entry_points
        except (TypeError, ValueError):
            found[each.name] = EntryPoints()
            os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"  # it would look for its own there, and fail
            _warn(f"the entry points of {each.name} {each.version} cannot be read: all of it is left out")
    return list(found.values())


def _warn(line: str) -> None:
    if COMPLETING not in os.environ:
        print(f"r2cc: warning: {plain.lines(line)}", file=sys.stderr)


def kinds(group: str, what: str, check: Callable[[str, object], T]) -> Kinds[T]:
    """All kinds of a group, in the order of their names. What cannot be used is said on stderr and left out.

    `what` is the word for one of them. `check` returns what is behind a name, or raises an error that says why it
    cannot be used. Of two with one name ours stays, else that of the first distribution. UsageError when ours are
    not installed.
    """
    made: dict[str, T] = {}
    owner: dict[str, str] = {}
    problems: dict[str, str] = {}
    lines: list[str] = []
    for entry in sorted(entries(group), key=_ours_first):
        name, of = entry.name, _distribution(entry)
        try:
            if name in owner:
                raise ValueError(f"the name is taken by {owner[name]}")
            made[name] = check(name, entry.load())
            owner[name] = of
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plug-in: whatever it raises, the others work
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            kind = "" if isinstance(error, (ValueError, TypeError)) else f"{type(error).__name__}: "
            lines.append(f"{what} {name} of {of} is left out: {kind}{reason}")
            problems.setdefault(name, lines[-1])
    if not any(of.split(" ")[0] == OURS for of in owner.values()):
        raise UsageError(f"r2cc's own entry points of {group} are not installed", "make setup")
    for line in lines:
        _warn(line)
    return Kinds(dict(sorted(made.items())), {name: line for name, line in problems.items() if name not in made})


def _ours_first(entry: EntryPoint) -> tuple[bool, str, str]:
    of = _distribution(entry)
    return of.split(" ")[0] != OURS, of, entry.name


def _distribution(entry: EntryPoint) -> str:
    """Its name and version, for people."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "an unknown distribution"
