"""Two checkouts run one experiment by turns, into one store: what the machine does meanwhile hits both (page 30)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.policy import Policy
from harness.config.words import listed
from harness.errors import InfraError, InternalError, UsageError

TOLD_LINES = 5
LIMIT_S = 3600.0
BEFORE, AFTER = "before", "after"


@dataclass(frozen=True)
class Turn:
    """One run of one side: the command, and where it says that its run directory is (its last line)."""

    side: str
    number: int
    argv: tuple[str, ...]


def program(checkout: Path) -> Path:
    """The `r2cc` of a checkout, or `checkout` itself when it is a program. UsageError when there is none."""
    found = checkout / ".venv" / "bin" / "r2cc" if checkout.is_dir() else checkout
    if not (found.is_file() and os.access(found, os.X_OK)):
        raise UsageError(f"there is no r2cc in {checkout}", "run `make setup` there")
    return found


def check(policy: Policy, file: Path, arms: str | None) -> None:
    """Before hours of runs: UsageError when the policy judges no arm of the experiment that would be run."""
    from chaos.experiment.file import load

    try:
        experiment = load(file)
    except UsageError:
        return  # the checkouts say it, each for its own form of the file
    run = [name.strip() for name in arms.split(",")] if arms else list(experiment.arms)
    if not any((named.experiment, named.arm) in [(experiment.name, arm) for arm in run] for named in policy.series):
        judged = listed(dict.fromkeys(f"{named.experiment}/{named.arm}" for named in policy.series))
        what = f"{experiment.name} with the arms {listed(run)}"
        raise UsageError(f"the policy judges {judged}, and not {what}", "another --policy, or other --arms")


def turns(sides: tuple[Path, Path], experiment: Path, store: Path, times: int, more: Sequence[str] = ()) -> list[Turn]:
    """A B B A A B B A ...: neither side is always the first. Pure."""
    found = []
    for number in range(times):
        pair = ((BEFORE, sides[0]), (AFTER, sides[1]))
        for side, checkout in pair if number % 2 == 0 else reversed(pair):
            words = ("chaos", "run", str(experiment), "--repeats", "1", "--out", str(store), "--quiet", "--void-ok")
            found.append(Turn(side, number, (str(program(checkout)), *words, *more)))
    return found


def run(turn: Turn) -> str:
    """The id of the run that it made; also one whose arms did not as expected: that is for the gate to judge.

    InfraError when it could not be run, InternalError for a mistake of r2cc itself.
    """
    try:
        done = subprocess.run(turn.argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InfraError(f"{turn.side}, turn {turn.number}: {error}", "run it by hand") from error
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if done.returncode not in (0, 1) or not Path(last).is_dir():
        said = "\n".join(f"  | {line}" for line in (done.stderr or done.stdout).strip().splitlines()[-TOLD_LINES:])
        kind = InternalError if done.returncode == InternalError.exit_code else InfraError
        raise kind(f"{turn.side}, turn {turn.number}: exit code {done.returncode}\n{said}", " ".join(turn.argv))
    return Path(last).name


def run_all(plan: Sequence[Turn], told: Callable[[Turn, str], None]) -> dict[str, list[str]]:
    """Ids of both sides' runs; `told` hears of each as it ends."""
    found: dict[str, list[str]] = {BEFORE: [], AFTER: []}
    for turn in plan:
        name = run(turn)
        found[turn.side].append(name)
        told(turn, name)
    return found
